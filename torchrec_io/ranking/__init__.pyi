from .encoding import encode as encode
from .list_parser import parse as parse
from .schema import Schema as Schema
