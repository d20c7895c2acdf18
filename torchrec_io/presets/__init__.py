"""Schemas of well-known datasets, each with the source that its layout is known from.

    TFRecordDataset(paths, tio.presets.imagenet(tio.ImageFeature(size=(224, 224))), batch_size=256)

A preset is an ordinary :class:`Schema` (or :class:`ExampleListSchema`) that may be changed like any
other: ``Schema({**preset, "image/height": ...})``. The names are those that are stored.
"""

from .driving import waymo_motion
from .images import imagenet, kaggle_images, object_detection
from .physics import learning_to_simulate, mesh_graph_nets
from .ranking import ranking_elwc
from .recognition import Preset, recognize
from .scenes import gqn
from .sound import nsynth
from .text import bert_pretraining
from .video import audioset, youtube8m_frames, youtube8m_video

__all__ = [
    "Preset",
    "audioset",
    "bert_pretraining",
    "gqn",
    "imagenet",
    "kaggle_images",
    "learning_to_simulate",
    "mesh_graph_nets",
    "nsynth",
    "object_detection",
    "ranking_elwc",
    "recognize",
    "waymo_motion",
    "youtube8m_frames",
    "youtube8m_video",
]
