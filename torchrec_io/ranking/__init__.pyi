from .encoding import encode as encode
from .parsing import parse as parse
from .schema import Schema as Schema
