from .indexing import IndexedFile as IndexedFile
from .indexing import index as index
from .inference import infer as infer
from .reading import read_tfrecords as read_tfrecords
from .resharding import reshard as reshard
from .shuffling import shuffle as shuffle
from .verification import verify as verify
from .writing import write_tfrecords as write_tfrecords
