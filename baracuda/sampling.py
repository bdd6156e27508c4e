# SPDX-License-Identifier: Apache-2.0
"""Sampling of tokens, filters of their distributions, penalties, and speculative sampling.

Rows are logits or probabilities, (batch_size, vocab_size). A token is drawn from words offset and offset + 1 of the
Philox stream of a seed; results depend neither on the batch nor on the device. A valid flag is 0, and the token 0, for
a row with NaN or +inf, or without mass. Operands *_of have a number for each row, in place of the descriptor's;
rng_state has a seed and an offset for all rows on the device, so that replays of a graph differ.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from baracuda import descriptor
from baracuda._call.scalars import UINT64_MAX, as_integer
from baracuda.descriptor import Descriptor
from baracuda.kinds import OpCategory, PerRowSampler, SamplerKind, SamplingKind
from baracuda.plan import Plan


def _word(name: str, value: object) -> int:
    return as_integer(name, value, 0, UINT64_MAX)


def _integer(**options: Any) -> Any:
    return descriptor.checked(lambda name, value: as_integer(name, value, -(2**31), 2**31 - 1), **options)


class _SamplingPlan(Plan):
    __slots__ = ()
    category = OpCategory.RANDOM
    names: ClassVar = {
        "batch": "batch_size", "vocab": "vocab_size", "top_k_val": "top_k", "top_p_val": "top_p", "min_p_val": "min_p",
        "num_speculative_tokens": "num_spec", "rep_penalty": "repetition", "freq_penalty": "frequency",
        "pres_penalty": "presence",
    }  # fmt: skip


# --- FlashInfer's samplers -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TopKTopPSamplingDescriptor(Descriptor):
    """The numbers that the kind does not have are ignored. Results are deterministic whatever the flag says."""

    kind: SamplerKind = descriptor.choice(SamplerKind)
    batch_size: int = descriptor.extent(1)
    vocab_size: int = descriptor.extent(1)
    top_k: int = _integer(default=1)
    top_p: float = descriptor.real(default=1.0)
    min_p: float = descriptor.real(default=1.0)
    deterministic: bool = descriptor.flag()
    seed_val: int = descriptor.checked(_word, default=0)
    offset_val: int = descriptor.checked(_word, default=0)


class TopKTopPSamplingPlan(_SamplingPlan):
    """Tokens of rows of probabilities by FlashInfer's rules: every filter on the whole row, ties at a boundary
    admitted.
    """

    __slots__ = ()
    op = "flashinfer_{kind}_sampling_{T}"


@dataclasses.dataclass(frozen=True)
class PerRowSamplingDescriptor(Descriptor):
    """The numbers of the filters are operands, one for each row."""

    kind: PerRowSampler = descriptor.choice(PerRowSampler)
    batch_size: int = descriptor.extent(1)
    vocab_size: int = descriptor.extent(1)
    deterministic: bool = descriptor.flag()
    seed_val: int = descriptor.checked(_word, default=0)
    offset_val: int = descriptor.checked(_word, default=0)


class PerRowSamplingPlan(_SamplingPlan):
    """TopKTopPSamplingPlan with an array for each limit that the kind has."""

    __slots__ = ()
    op = "flashinfer_{kind}_sampling_{T}_arr"


@dataclasses.dataclass(frozen=True)
class SpeculativeSamplingDescriptor(Descriptor):
    """num_spec drafted tokens for each row."""

    batch_size: int = descriptor.extent(1)
    num_spec: int = descriptor.extent(1)
    vocab_size: int = descriptor.extent(1)
    deterministic: bool = descriptor.flag()
    seed_val: int = descriptor.checked(_word, default=0)
    offset_val: int = descriptor.checked(_word, default=0)

    @property
    def positions(self) -> int:
        return self.num_spec + 1


class SpeculativeSamplingPlan(_SamplingPlan):
    """Drafted tokens that the target model accepts, and one after them. The two counts accumulate: clear them first to
    have those of one run.
    """

    __slots__ = ()
    op = "flashinfer_chain_speculative_sampling_{T}"
    kind = SamplingKind.SPECULATIVE


# --- penalties -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class TokenPenaltyDescriptor(Descriptor):
    """repetition 1, frequency 0 and presence 0 switch a penalty off."""

    batch_size: int = descriptor.extent(1)
    vocab_size: int = descriptor.extent(1)
    repetition: float = descriptor.real(default=1.0)
    frequency: float = descriptor.real(default=0.0)
    presence: float = descriptor.real(default=0.0)


class TokenPenaltyPlan(_SamplingPlan):
    """Penalties of the tokens with counts above 0, in place."""

    __slots__ = ()
    op = "apply_token_penalty_{T}"
    kind = SamplingKind.PENALTY


@dataclasses.dataclass(frozen=True)
class ProcessLogitsDescriptor(Descriptor):
    """words is the number of 32-bit words of a row's mask, 0 without one."""

    batch_size: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    words: int = descriptor.extent(default=0)
    repetition: float = descriptor.real(default=1.0)
    frequency: float = descriptor.real(default=0.0)
    presence: float = descriptor.real(default=0.0)


class ProcessLogitsPlan(_SamplingPlan):
    """Penalties by counts, a bias and a mask of allowed tokens in one pass; y may be logits."""

    __slots__ = ()
    op = "process_logits_{T}"
    kind = SamplingKind.PENALTY


@dataclasses.dataclass(frozen=True)
class TokenPenaltyListsDescriptor(Descriptor):
    """length tokens are listed for each row."""

    batch_size: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    length: int = descriptor.extent()
    repetition: float = descriptor.real(default=1.0)
    frequency: float = descriptor.real(default=0.0)
    presence: float = descriptor.real(default=0.0)


class TokenPenaltyListsPlan(_SamplingPlan):
    """Penalties of listed tokens, padded with -1; y may be logits."""

    __slots__ = ()
    op = "token_penalty_lists_{T}"
    kind = SamplingKind.PENALTY


@dataclasses.dataclass(frozen=True)
class TokenBiasListsDescriptor(Descriptor):
    """length tokens are listed for each row."""

    batch_size: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    length: int = descriptor.extent()


class TokenBiasListsPlan(_SamplingPlan):
    """A bias of listed tokens, padded with -1; without bias they are banned. y may be logits."""

    __slots__ = ()
    op = "token_bias_lists_{T}"
    kind = SamplingKind.PENALTY


# --- samplers and filters of ours ------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _FilterDescriptor(Descriptor):
    batch_size: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    are_probabilities: bool = descriptor.flag()
    temperature: float = descriptor.real(default=1.0)
    top_k: int = _integer(default=0)
    top_p: float = descriptor.real(default=1.0)
    min_p: float = descriptor.real(default=0.0)


@dataclasses.dataclass(frozen=True)
class SampleTokensDescriptor(_FilterDescriptor):
    """Temperature, top_k, top_p of what it leaves, min_p, in this order; top_k 0, top_p 1 and min_p 0 are off."""

    seed: int = descriptor.checked(_word, default=0)
    offset: int = descriptor.checked(_word, default=0)


class SampleTokensPlan(_SamplingPlan):
    """Tokens of rows of logits or probabilities; ties are ordered by index."""

    __slots__ = ()
    op = "sample_tokens_{T}"
    kind = SamplingKind.TOKENS


@dataclasses.dataclass(frozen=True)
class FilterTokensDescriptor(_FilterDescriptor):
    """Fields of SampleTokensDescriptor; with normalize the results are probabilities."""

    normalize: bool = descriptor.flag()


class FilterTokensPlan(_SamplingPlan):
    """Rows without the tokens that SampleTokensPlan would not draw; y may be x."""

    __slots__ = ()
    op = "filter_tokens_{T}"
    kind = SamplingKind.FILTER


@dataclasses.dataclass(frozen=True)
class TypicalSamplingDescriptor(Descriptor):
    """typical_p is the mass of the tokens that are left."""

    batch_size: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    temperature: float = descriptor.real(default=1.0)
    typical_p: float = descriptor.real(default=1.0)
    seed: int = descriptor.checked(_word, default=0)
    offset: int = descriptor.checked(_word, default=0)


class TypicalSamplingPlan(_SamplingPlan):
    """Tokens of rows of logits, among those whose -log p is nearest to the entropy."""

    __slots__ = ()
    op = "typical_sampling_{T}"
    kind = SamplingKind.TOKENS


# --- speculative sampling --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class SpeculativeSampleDescriptor(Descriptor):
    """With by_blocks drafted tokens are verified together."""

    batch_size: int = descriptor.extent()
    drafted: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    by_blocks: bool = descriptor.flag()
    seed: int = descriptor.checked(_word, default=0)
    offset: int = descriptor.checked(_word, default=0)

    @property
    def positions(self) -> int:
        return self.drafted + 1


class SpeculativeSamplePlan(_SamplingPlan):
    """SpeculativeSamplingPlan with a count that is overwritten, seeds for each row, and block verification."""

    __slots__ = ()
    op = "speculative_sample_{T}"
    kind = SamplingKind.SPECULATIVE


@dataclasses.dataclass(frozen=True)
class TreeSampleDescriptor(Descriptor):
    """nodes of each row's tree, the root being the first."""

    batch_size: int = descriptor.extent()
    nodes: int = descriptor.extent()
    vocab_size: int = descriptor.extent()
    seed: int = descriptor.checked(_word, default=0)
    offset: int = descriptor.checked(_word, default=0)


class TreeSamplePlan(_SamplingPlan):
    """The path of the target model through a tree of drafted tokens, and the token after it."""

    __slots__ = ()
    op = "tree_sample_{T}"
    kind = SamplingKind.SPECULATIVE
