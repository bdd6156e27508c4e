# SPDX-License-Identifier: Apache-2.0
"""Programs that use nothing but this library and NumPy, on text that every Python installation carries.

`python -m baracuda.demo train` trains a language model: tokenizer, transformer, loss curve, sampled text;
`python -m baracuda.demo classify` a classifier of texts.
"""
