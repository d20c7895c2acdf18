"""Packed rows in attention: documents do not see each other."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention

from tests.support.documents import LENGTH, MODES, make, packed, write_documents

HEADS = 2
WIDTH = 16


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_documents(tmp_path_factory.mktemp("packing"))


def attended_alone(batch: Any, values: Tensor) -> Tensor:
    """Return the causal attention of each segment on its own, as a kernel for ``cu_seqlens``."""
    flat = values.transpose(1, 2).flatten(0, 1)  # [tokens, heads, width]
    ends = batch.cu_seqlens.tolist()
    parts = []
    for begin, end in itertools.pairwise(ends):
        assert end - begin <= batch.max_seqlen
        part = flat[begin:end].transpose(0, 1)
        parts.append(scaled_dot_product_attention(part, part, part, is_causal=True))
    found = torch.cat(parts, 1).transpose(0, 1)
    return found.view(len(values), LENGTH, HEADS, WIDTH).transpose(1, 2)


def mask_of(seg: Tensor) -> BlockMask:
    def sees(b: Tensor, _: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (seg[b, q] == seg[b, k]) & (q >= k)

    size = len(seg), None, LENGTH, LENGTH
    return create_block_mask(sees, *size, "cpu", BLOCK_SIZE=LENGTH)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("mode", MODES)
def test_masks_and_segments_keep_documents_apart(paths: list[str], mode: Any) -> None:
    torch.manual_seed(0)
    for batch in itertools.islice(make(paths, packed(mode=mode, separator=5)), 4):
        seg = batch["segment_ids"]
        count = len(seg)
        values = torch.randn(count, HEADS, LENGTH, WIDTH)
        expected = attended_alone(batch, values)
        mask = mask_of(seg)
        flexible: Any = flex_attention(values, values, values, block_mask=mask)
        torch.testing.assert_close(flexible, expected)
        dense = (seg[:, :, None] == seg[:, None, :]).tril()[:, None]
        found = scaled_dot_product_attention(values, values, values, attn_mask=dense)
        torch.testing.assert_close(found, expected)
