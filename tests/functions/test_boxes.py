# SPDX-License-Identifier: Apache-2.0
"""Boxes, pixels and deformable convolution as functions: known answers, and properties that no single row has."""

import numpy as np
import pytest

import baracuda as bk


def kept(*arguments):
    indices, count = bk.nms(*arguments) if len(arguments) == 3 else bk.batched_nms(*arguments)
    found, number = np.asarray(indices), int(np.asarray(count)[0])
    assert (found[number:] == -1).all()
    return found[:number].tolist()


def test_nms_keeps_the_best_of_overlapping_boxes():
    boxes = np.array([[0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 11]], np.float32)
    assert kept(boxes, np.array([0.5, 0.9, 0.4, 0.8], np.float32), 0.5) == [1, 2]
    assert kept(boxes, np.array([0.5, 0.9, 0.4, 0.8], np.float32), 0.75) == [1, 3, 2]


def test_a_ratio_of_the_threshold_suppresses_nothing():
    boxes = np.array([[0, 0, 2, 1], [0, 0, 1, 1]], np.float32)  # a ratio of a half
    scores = np.array([1, 2], np.float32)
    assert kept(boxes, scores, 0.5) == [1, 0]
    assert kept(boxes, scores, 0.49) == [1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_classes_do_not_change_ratios(dtype):
    """Boxes of each class are kept as if they were alone, however large the class: boxes are not moved apart."""
    rng = np.random.default_rng(3)
    corner = rng.integers(0, 1000, (90, 2)) / 8
    boxes = np.concatenate([corner, corner + rng.integers(80, 400, (90, 2)) / 8], 1).astype(dtype)
    scores, classes = rng.permutation(90).astype(dtype), rng.integers(0, 3, 90) * 100_000
    alone = [np.flatnonzero(classes == c)[kept(boxes[classes == c], scores[classes == c], 0.3)] for c in set(classes)]
    together = kept(boxes, scores, classes.astype(np.int64), 0.3)
    assert sorted(together) == sorted(np.concatenate(alone).tolist())
    assert (np.diff(scores[together].astype(float)) < 0).all()


def test_a_region_of_whole_cells_is_the_image():
    x = np.random.default_rng(1).random((1, 2, 4, 6))
    boxes = np.array([[0, 0, 0, 6, 4]], np.float64)
    np.testing.assert_allclose(bk.roi_align(x, boxes, (4, 6), sampling_ratio=1, aligned=True), x, atol=1e-12)


@pytest.mark.parametrize("name", ["ycc601", "ycc709", "hsv"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_colours_there_and_back(name, channels_last):
    shape = (2, 5, 7, 3) if channels_last else (2, 3, 5, 7)
    x = np.random.default_rng(2).random(shape)
    there = bk.convert_color(x, f"rgb_to_{name}", channels_last=channels_last)
    back = bk.convert_color(there, f"{name}_to_rgb", channels_last=channels_last)
    np.testing.assert_allclose(back, x, atol=1e-12)


def test_grey_has_no_chroma():
    grey = np.full((1, 3, 2, 2), 77, np.uint8)
    made = np.asarray(bk.convert_color(grey, "rgb_to_ycc601"))
    assert made[0, :, 0, 0].tolist() == [77, 128, 128]
    assert np.asarray(bk.convert_color(grey, "rgb_to_gray")).tolist() == [[[[77, 77], [77, 77]]]]


def test_pixels_there_and_back():
    x = np.arange(256, dtype=np.uint8).repeat(3).reshape(1, 16, 16, 3)
    mean, std = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
    y = bk.pixels_to_planes(x, mean, std, flip_columns=True, reverse_channels=True)
    assert (np.asarray(bk.planes_to_pixels(y, mean, std, flip_columns=True, reverse_channels=True)) == x).all()


def test_video_black_and_white():
    frame = np.array([[16, 235], [16, 235], [128, 128]], np.uint8)
    assert np.asarray(bk.nv12_to_rgb(frame)).tolist() == [[[0, 255], [0, 255]]] * 3


def convolution(x, weight, stride, padding, dilation, groups):
    """A convolution by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    filters, of_group, height, width = weight.shape
    out = [(e - dilation * (k - 1) - 1) // stride + 1 for e, k in zip(x.shape[2:], (height, width))]
    y = np.zeros((x.shape[0], filters, *out))
    for f, i, j in np.ndindex(filters, *out):
        first = f // (filters // groups) * of_group
        rows, columns = (slice(at * stride, at * stride + dilation * (k - 1) + 1, dilation)
                         for at, k in ((i, height), (j, width)))  # fmt: skip
        y[:, f, i, j] = (x[:, first : first + of_group, rows, columns] * weight[f]).sum((1, 2, 3))
    return y


@pytest.mark.parametrize("stride, padding, dilation, groups", [(1, 1, 1, 1), (2, 1, 2, 2), (3, 0, 1, 4)])
def test_without_offsets_it_is_a_convolution(stride, padding, dilation, groups):
    rng = np.random.default_rng(4)
    x, weight, bias = rng.random((2, 4, 9, 8)), rng.random((8, 4 // groups, 3, 2)), rng.random(8)
    want = convolution(x, weight, stride, padding, dilation, groups)
    offset = np.zeros((2, 2 * 2 * 6, *want.shape[2:]))
    numbers = {"stride": stride, "padding": padding, "dilation": dilation}
    np.testing.assert_allclose(bk.deform_conv2d(x, offset, weight, **numbers), want, rtol=1e-12)
    mask = np.full((2, 12, *want.shape[2:]), 0.5)
    got = bk.deform_conv2d(x, offset, weight, bias, mask=mask, **numbers)
    np.testing.assert_allclose(got, want / 2 + bias[:, None, None], rtol=1e-12)


def test_offsets_of_whole_cells_move_windows():
    x = np.arange(36.0).reshape(1, 1, 6, 6)
    offset = np.zeros((1, 2, 6, 6))
    offset[:, 0], offset[:, 1] = 1, -1  # down and left
    want = np.pad(x[0, 0], ((0, 1), (1, 0)))[1:, :-1]
    np.testing.assert_array_equal(np.asarray(bk.deform_columns(x, offset, 1))[0, 0], want)


@pytest.mark.parametrize("call, text", [
    (lambda x: bk.roi_align(x, np.zeros((2, 4)), 2), r"boxes has shape \(2, 4\), expected \(num_rois, 5\)"),
    (lambda x: bk.roi_align(x, np.zeros((2, 5)), (2, 3, 4)), r"output_size is \(2, 3, 4\)"),
    (lambda x: bk.nms(np.zeros((2, 3)), np.zeros(2), 0.5), r"boxes has shape \(2, 3\)"),
    (lambda x: bk.convert_color(x, "rgb_to_lab"), r"conversion is 'rgb_to_lab', must be one of rgb_to_bgr"),
    (lambda x: bk.convert_color(x, "gray_to_rgb"), r"x has shape .*, expected \(\.\.\., 1, height, width\)"),
    (lambda x: bk.deform_columns(x, np.zeros((1, 3, 4, 4)), 1), r"offset has shape .*, must have 2 \* groups \* 1"),
])  # fmt: skip
def test_errors(call, text):
    with pytest.raises(bk.InvalidProblemError, match=text):
        call(np.zeros((1, 3, 4, 4)))
