"""Operations on whole TFRecord files: merge, split, reshard, shuffle, subset, compress."""
