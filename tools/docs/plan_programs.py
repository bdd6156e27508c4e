# SPDX-License-Identifier: Apache-2.0
"""Example programs of GEMM and loss ops that no function on arrays calls, by their plans."""

from __future__ import annotations

import re

IMPORTS = "import numpy as np\n\nimport baracuda as bk\n\n"
A, B = "[[1, 2, 0, 1], [0, 1, 3, -1]]", "[[1, 0, 2, 1], [0, 1, 1, 2]]"  # A row-major, B column-major
B_BY_ROWS = "[[1, 0], [0, 1], [2, 1], [1, 2]]"
BIAS = "[1, -4]"
NAMES = {"s8": "int8", "u8": "uint8", "f16": "float16", "f32": "float32", "f64": "float64"}
MATRICES = {
    "rcr": (f"np.array({A}, {{0}})", f"np.array({B}, {{0}})", "n x k"),
    "rrr": (f"np.array({A}, {{0}})", f"np.array({B_BY_ROWS}, {{0}})", "k x n"),
}
PLAIN = re.compile(r"gemm(?P<bias>_bias)?(?P<f>_relu|_gelu|_silu)?(?P<t>_t|_simt)?_(?P<layout>rcr|rrr)_sm80")
FP8 = re.compile(r"gemm_fp8_(?P<e>e4m3|e5m2)_(?P<layout>rcr|rrr)_sm89(?P<bias>_bias)?(?P<f>_relu|_gelu|_silu)?")
INTEGERS = (
    re.compile(r"gemm_(?P<e>s8|u8)_(?P<layout>rcr|rrr)_sm80(?P<bias>_bias)?(?P<f>_relu|_gelu|_silu)?"),
    re.compile(r"gemm_bias(?P<f>_relu|_gelu|_silu)?(?P<bias>bias)_(?P<e>s8|u8)_(?P<layout>rcr)_sm80"),
    re.compile(r"gemm_bias(?P<f>_relu|_gelu|_silu)?_(?P<bias>bias)_(?P<e>s8|u8)_(?P<layout>rcr)_sm80"),
)
NIBBLES = re.compile(r"gemm_(?P<e>s4|u4)_(?P<layout>rcr|rrr)_sm89(?P<bias>_bias)?(?P<f>_relu|_gelu|_silu)?")


def programs(key: str) -> list[tuple[str, str]]:
    """(title, code) of the programs of a page, by its key; none for other pages."""
    code = OTHERS.get(key) or _product(key)
    return [("Plan", IMPORTS + code.strip())] if code else []


def _product(key: str) -> str:
    """D = act(A B + bias), 2 x 2."""
    if found := PLAIN.fullmatch(key):
        element = {None: "f16", "_t": "f32", "_simt": "f32_strict"}[found["t"]]
        return _by_plan("Gemm", found, element, "np.float16" if element == "f16" else "np.float32")
    if found := FP8.fullmatch(key):
        return _by_plan("Fp8Gemm", found, f"ElementKind.FP8_{found['e'].upper()}", "np.float32", upload=True)
    for pattern in INTEGERS:
        if found := pattern.fullmatch(key):
            return _by_plan("IntGemm", found, found["e"], f"np.{NAMES[found['e']]}")
    if found := NIBBLES.fullmatch(key):
        return _packed(found)
    return ""


def _epilogue(found: re.Match[str]) -> str:
    return f"BIAS{(found['f'] or '').upper()}" if found["bias"] else "IDENTITY"


def _by_plan(name: str, found: re.Match[str], element: str, dtype: str, upload: bool = False) -> str:
    kind = KINDS.get(element, element)
    a, b, stored = (text.format(dtype) for text in MATRICES[found["layout"]])
    if found[0].startswith(("gemm_u8", "gemm_bias")) and element == "u8":
        a = a.replace("-1", "1")
    to = f", bk.{kind}" if upload else ""
    bias = dict.fromkeys(("f16", "f64"), dtype).get(element, "np.float32")
    given = f"bias = bk.upload(np.array({BIAS}, {bias}))\n" if found["bias"] else ""
    of = f'of = {{"layout": bk.LayoutSku.{found["layout"].upper()}, "epilogue": bk.EpilogueKind.{_epilogue(found)}}}'
    return f"""
a = bk.upload({a}{to})  # m x k
b = bk.upload({b}{to})  # {stored}
{given}d = bk.empty((2, 2), bk.{_storage(kind)})
{of}
plan = bk.{name}Plan.select(None, bk.{name}Descriptor(m=2, n=2, k=4, **of, element=bk.{kind}))
plan.run(None, None, bk.{name}Args(a=a, b=b, d=d{", bias=bias" if found["bias"] else ""}))
print(bk.download(d))
"""


KINDS = {"f32_strict": "ElementKind.F32_STRICT", "s8": "i8"}


def _storage(kind: str) -> str:
    return "f32" if "STRICT" in kind else kind


def _packed(found: re.Match[str]) -> str:
    """The program for 4-bit integers."""
    a = A if found["e"] == "s4" else A.replace("-1", "1")
    b, stored = (B, "n x k") if found["layout"] == "rcr" else (B_BY_ROWS, "k x n")
    given = f"bias = bk.upload(np.array({BIAS}, np.float32))\n" if found["bias"] else ""
    of = f'of = {{"layout": bk.LayoutSku.{found["layout"].upper()}, "epilogue": bk.EpilogueKind.{_epilogue(found)}}}'
    element = f"ElementKind.{found['e'].upper()}"
    return f"""
def pack(values):
    low, high = np.array(values)[:, ::2] & 15, np.array(values)[:, 1::2] & 15
    return bk.upload((low | high << 4).astype(np.uint8))


a, b = pack({a}), pack({b})  # m x k, {stored}
{given}d = bk.empty((2, 1), bk.u8)  # two columns
{of}
plan = bk.Int4GemmPlan.select(None, bk.Int4GemmDescriptor(m=2, n=2, k=4, **of, element=bk.{element}))
plan.run(None, None, bk.Int4GemmArgs(a=a, b=b, d=d{", bias=bias" if found["bias"] else ""}))
packed = bk.download(d)
print(packed & 15, packed >> 4)  # the columns{", as they lie in 4 bits" if found["e"] == "s4" else ""}
"""


def _bits(layout: str) -> str:
    b = "[[0, 1, 1, 0, 1, 0, 1, 1]]" if layout == "rcr" else "np.eye(8, dtype=int)"
    n, stored = (1, "n x k / 8") if layout == "rcr" else (8, "k x n / 8")
    return f"""
a = bk.upload(np.packbits([[1, 1, 0, 0, 1, 0, 1, 0]], axis=1, bitorder="little"))  # m x k / 8
b = bk.upload(np.packbits({b}, axis=1, bitorder="little"))  # {stored}
d = bk.empty((1, {n}), bk.i32)
of = bk.BinGemmDescriptor(m=1, n={n}, k=8, layout=bk.LayoutSku.{layout.upper()}, element=bk.ElementKind.BIN)
bk.BinGemmPlan.select(None, of).run(None, None, bk.BinGemmArgs(a=a, b=b, d=d))
print(bk.download(d))  # places that differ
"""


def _dense(name: str, dtype: str, of: str, out: str, shape: str = "(1, 2, 2)", a: str = A) -> str:
    return f"""
a = bk.upload(np.array([{a}], np.{dtype}))  # a batch of one matrix, m x k
b = bk.upload(np.array([{B}], np.{dtype}))  # n x k
d = bk.empty({shape}, bk.{out})
of = bk.{name}Descriptor({of})
bk.{name}Plan.select(None, of).run(None, None, bk.{name}Args(a=a, b=b, d=d))
print(bk.download(d))
"""


def _awq(rest: str) -> str:
    return f"""
# 64 columns of 128 K elements. Each word has eight elements of four bits, here 9, and each zero is 8.
weights = bk.upload(np.full((64, 16), 0x99999999, np.uint32).view(np.int32))
zeros = bk.upload(np.full((64, 1), 0x88888888, np.uint32).view(np.int32))
scales = bk.upload(np.full((64, 8), 0.5, np.float16))
{rest}
"""


_LABELS = "target = bk.upload(np.array([2, 0, -100]))  # the last one is ignored\n"
_WEIGHTS = """
kept = bk.upload(np.array([[1, 2, 3, 4]], np.float16))  # one row of eight weights, two of each four
metadata = bk.upload(np.array([[0x0D08]], np.uint16))  # indices 0 and 2 of the first four, 1 and 3 of the others
"""
OTHERS = {
    "gemm_bin_rcr_sm89": _bits("rcr"),
    "gemm_bin_rrr_sm89": _bits("rrr"),
    "gemm_batched_rcr_sm80": _dense("BatchedGemm", "float16", "m=2, n=2, k=4, batch_count=1, element=bk.f16", "f16"),
    "gemm_dense_bin": """
a = bk.upload(np.packbits([[[1, 1, 0, 0, 1, 0, 1, 0]]], axis=2, bitorder="little"))  # a batch of one row, m x k / 8
b = bk.upload(np.packbits([[[0, 1, 1, 0, 1, 0, 1, 1]]], axis=2, bitorder="little"))  # n x k / 8
d = bk.empty((1, 1, 1), bk.i32)
of = bk.DenseSumsGemmDescriptor(m=1, n=1, k=8, batch=1, layout=bk.DenseLayout.RCR, element=bk.ElementKind.BIN)
bk.DenseSumsGemmPlan.select(None, of).run(None, None, bk.DenseSumsGemmArgs(a=a, b=b, d=d))
print(bk.download(d))  # places that differ
""",
    "gemm_dense_3xtf32": _dense(
        "DenseGemm3xTf32", "float32", "m=2, n=2, k=4, batch=1, layout=bk.DenseLayout.RCR, element=bk.f32", "f32"
    ),
    "gemm_dense_i32": _dense(
        "DenseSumsGemm", "int8", "m=2, n=2, k=4, batch=1, layout=bk.DenseLayout.RCR, element=bk.i8", "i32"
    ),
    "gemm_epilogue_t": """
a = bk.upload(np.array([[1, 2, 0, 1], [0, 1, 3, -1]], np.float32))  # m x k
b = bk.upload(np.array([[1, 0], [0, 1], [2, 1], [1, 2]], np.float32))  # k x n
bias, row_bias = bk.upload(np.array([1, -4], np.float32)), bk.upload(np.array([0.5, 0], np.float32))
d, z = bk.empty((2, 2), bk.f32), bk.empty((2, 2), bk.f32)
of = {"layout": bk.LayoutSku.RRR, "epilogue": bk.EpilogueKind.BIAS_RELU}
plan = bk.GemmPlan.select(None, bk.GemmDescriptor(m=2, n=2, k=4, **of, element=bk.f32))
plan.run(None, None, bk.GemmArgs(a=a, b=b, d=d, bias=bias, row_bias=row_bias, z=z))
print(bk.download(d), bk.download(z), sep="\\n")  # z: before the activation
""",
    "gemv_dense_m1": """
a = bk.upload(np.array([[[1, 2, 0, 1]]], np.float32))  # a batch of one row of k elements
b = bk.upload(np.array([[[1, 0], [0, 1], [2, 1], [1, 2]]], np.float32))  # k x n
d = bk.empty((1, 1, 2), bk.f32)
of = bk.DenseGemvDescriptor(n=2, k=4, batch=1, element=bk.f32)
bk.DenseGemvPlan.select(None, of).run(None, None, bk.DenseGemvArgs(a=a, b=b, d=d))
print(bk.download(d))
""",
    "gemm_pointers": """
a = [bk.upload(np.full((rows, 4), rows, np.float32)) for rows in (1, 3)]  # m x k each, of 1 and of 3 rows
b = [bk.upload(np.eye(4, 2, dtype=np.float32)) for _ in a]  # k x n
d = [bk.empty((rows, 2), bk.f32) for rows in (1, 3)]
pointers = [bk.upload(np.array([matrix.ptr for matrix in each])) for each in (a, b, d)]
sizes = bk.upload(np.array([[1, 2, 4], [3, 2, 4]], np.int32))  # m, n and k of each product, read on the device
pitches = {"lda": 4, "ldb": 2, "ldd": 2}
of = bk.GemmPointersDescriptor(m=3, n=2, k=4, batch=2, layout=bk.DenseLayout.RRR, **pitches, element=bk.f32)
bk.GemmPointersPlan.select(None, of).run(None, None, bk.GemmPointersArgs(*pointers, sizes))
print(*(bk.download(matrix) for matrix in d), sep="\\n")
""",
    "grouped_gemm_pointers": """
a = bk.upload(np.array([[1, 2, 0, 1], [0, 1, 3, -1], [1, 1, 1, 1]], np.float32))  # three rows of k elements
experts = [bk.upload(np.full((4, 2), value, np.float32)) for value in (1, 10)]  # k x n each
b = bk.upload(np.array([expert.ptr for expert in experts]))
offsets = bk.upload(np.array([0, 2, 3], np.int32))  # two rows of the first expert, one of the second
d = bk.empty((3, 2), bk.f32)
of = bk.GroupedGemmPointersDescriptor(m=3, n=2, k=4, groups=2, layout=bk.DenseLayout.RRR, ldb=2, element=bk.f32)
plan = bk.GroupedGemmPointersPlan.select(None, of)
plan.run(None, None, bk.GroupedGemmPointersArgs(a=a, b_pointers=b, offsets=offsets, d=d))
print(bk.download(d))
""",
    "gemm_scaled": """
a = bk.upload(np.array([[1, 2, 0, 1], [0, 1, 3, -1]], np.float32), bk.ElementKind.FP8_E4M3)  # m x k
b = bk.upload(np.array([[1, 0, 2, 1], [0, 1, 1, 2]], np.float32), bk.ElementKind.FP8_E4M3)  # n x k
a_scale = bk.upload(np.array([0.5, 2], np.float32))  # scale of each row of A
b_scale = bk.upload(np.array([1, 10], np.float32))  # scale of each column of B
d = bk.empty((2, 2), bk.f32)
of = {"layout": bk.DenseLayout.RCR, "scaling": bk.ScalingKind.ROWS, "output_element": bk.f32}
plan = bk.ScaledGemmPlan.select(None, bk.ScaledGemmDescriptor(m=2, n=2, k=4, **of, element=bk.ElementKind.FP8_E4M3))
plan.run(None, None, bk.ScaledGemmArgs(a=a, b=b, d=d, a_scale=a_scale, b_scale=b_scale))
print(bk.download(d))
""",
    "gemm_scaled_fp8e4m3": """
a = bk.upload(np.array([[1, 2, 0, 1], [0, 1, 3, -1]], np.float32), bk.ElementKind.FP8_E5M2)  # m x k
b = bk.upload(np.array([[1, 0, 2, 1], [0, 1, 1, 2]], np.float32), bk.ElementKind.FP8_E4M3)  # n x k
a_scale = bk.upload(np.array([0.5, 2], np.float32))  # scale of each row of A
b_scale = bk.upload(np.array([1, 10], np.float32))  # scale of each column of B
d = bk.empty((2, 2), bk.f32)
of = {"layout": bk.DenseLayout.RCR, "scaling": bk.ScalingKind.ROWS, "output_element": bk.f32}
plan = bk.ScaledGemmPlan.select(None, bk.ScaledGemmDescriptor(m=2, n=2, k=4, **of, element=bk.ElementKind.FP8_E5M2))
plan.run(None, None, bk.ScaledGemmArgs(a=a, b=b, d=d, a_scale=a_scale, b_scale=b_scale))
print(bk.download(d))
""",
    "gemm_sparse24_inflate": f"""{_WEIGHTS}dense = bk.empty((1, 8), bk.f16)
plan = bk.GemmSparse24InflatePlan.select(None, bk.GemmSparse24InflateDescriptor(m=1, k=8, element=bk.f16))
plan.run(None, None, bk.GemmSparse24InflateArgs(w_compressed=kept, w_metadata=metadata, w_dense=dense))
print(bk.download(dense))
""",
    "gemm_sparse24_gemm": f"""{_WEIGHTS}x = bk.upload(np.array([[1] * 8, [1, 0, 0, 0, 0, 0, 0, 1]], np.float16))
y = bk.empty((2, 1), bk.f16)
plan = bk.GemmSparse24Plan.select(None, bk.GemmSparse24Descriptor(n=2, m=1, k=8, element=bk.f16))
plan.run(None, None, bk.GemmSparse24Args(w_compressed=kept, w_metadata=metadata, x=x, y=y))
print(bk.download(y))
""",
    "int4_awq_dequantize": _awq(
        """out = bk.empty((64, 128), bk.f16)
plan = bk.Int4AwqDequantizePlan.select(None, bk.Int4AwqDequantizeDescriptor(n=64, k=128, element=bk.f16))
plan.run(None, None, bk.Int4AwqDequantizeArgs(weight_packed=weights, scales=scales, zeros=zeros, output=out))
print(bk.download(out)[:2, :4])  # 0.5 (9 - 8)"""
    ),
    "int4_awq_gemm": _awq(
        """x = bk.upload(np.arange(2 * 128, dtype=np.float16).reshape(2, 128) / 128)
y = bk.empty((2, 64), bk.f16)
plan = bk.Int4AwqGemmPlan.select(None, bk.Int4AwqGemmDescriptor(m=2, ic=128, oc=64, split_k_iters=1, element=bk.f16))
plan.run(None, None, bk.Int4AwqGemmArgs(activation=x, weight_packed=weights, scales=scales, zeros=zeros, output=y))
print(bk.download(y)[:, :4])  # half of the sum of each row"""
    ),
    "int4_marlin_gemm": """
# K = 128, 64 columns. Each word has eight elements of four bits, here 9, which stands for 9 - 8.
weights = bk.upload(np.full((8, 128), 0x99999999, np.uint32).view(np.int32))
scales = bk.upload(np.full((1, 64), 0.5, np.float16))
x = bk.upload(np.arange(2 * 128, dtype=np.float16).reshape(2, 128) / 128)
y = bk.empty((2, 64), bk.f16)
plan = bk.Int4MarlinGemmPlan.select(None, bk.Int4MarlinGemmDescriptor(m=2, n=64, k=128, element=bk.f16))
plan.run(None, None, bk.Int4MarlinGemmArgs(activation=x, weight_packed=weights, scales=scales, output=y))
print(bk.download(y)[:, :4])  # half of the sum of each row
""",
    "loss_flce_per_row": f"""
logits = bk.upload(np.array([[0, 1, 3], [2, 0, 1], [1, 1, 1]], np.float32))
{_LABELS}losses = bk.empty((3,), bk.f32)
of = bk.CrossEntropyInPlaceDescriptor(n_rows=3, class_extent=3, scale=1 / 2, element=bk.f32)
plan = bk.CrossEntropyInPlacePlan.select(None, of)
plan.run(None, None, bk.CrossEntropyInPlaceArgs(logits=logits, target=target, losses=losses))
print(bk.download(losses), bk.download(logits), sep="\\n")  # the gradient is where the logits were
""",
}
_FUSED = f"""
rng = np.random.default_rng(0)
x = bk.upload(rng.standard_normal((3, 4), np.float32), bk.%(element)s)  # the last hidden layer: 3 tokens of 4 features
weight = bk.upload(rng.standard_normal((5, 4), np.float32), bk.%(element)s)  # a vocabulary of 5
{_LABELS}loss, dx, dw = (bk.empty(shape, bk.%(element)s) for shape in (%(shape)s, (3, 4), (5, 4)))
of = bk.FusedLinearCrossEntropyDescriptor(3, 4, 5, bk.LossReduction.%(reduction)s, element=bk.%(element)s)
plan = bk.FusedLinearCrossEntropyPlan.select(None, of)
args = bk.FusedLinearCrossEntropyArgs(x, weight, target, loss, dx, dw)
plan.run(None, bk.workspace(plan, args), args)  # %(note)s
print(bk.download(loss), bk.download(dx), sep="\\n")
"""
_MEAN = {"element": "f32", "shape": "(1,)", "reduction": "MEAN"}
OTHERS |= {
    "loss_flce_count_non_ignore": _FUSED % {**_MEAN, "note": "counts the targets, for the mean"},
    "loss_flce_scalar_finalize": _FUSED % {**_MEAN, "note": "its last call sums the losses of the rows"},
    "loss_flce_per_row_cast": _FUSED
    % {"element": "f16", "shape": "(3,)", "reduction": "NONE", "note": "losses are f32 until its last call"},
}
OTHERS["loss_flce_scale"] = """
dx, dw = (bk.upload(np.array(values, np.float32)) for values in ([[1, 2]], [[3, 4], [5, 6]]))
of = bk.FusedLinearCrossEntropyBackwardDescriptor(1, 2, 2, element=bk.f32)
plan = bk.FusedLinearCrossEntropyBackwardPlan.select(None, of)
plan.run(None, None, bk.FusedLinearCrossEntropyBackwardArgs(grad_input=dx, grad_weight=dw), 0.5)
print(bk.download(dx), bk.download(dw), sep="\\n")
"""
