"""Pickles of plain containers, texts and numbers: every operation is looked at before anything is loaded.

A pickle is a program. Those of PyTorch's flight recorder use no operation that names a class, calls or builds anything,
so a file with one is refused unread (https://docs.python.org/3/library/pickle.html#restricting-globals).
"""

from __future__ import annotations

import io
import pickle
import pickletools
import warnings
from typing import NoReturn

PLAIN = {
    *("PROTO", "FRAME", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "DICT", "LIST", "TUPLE"),
    *("TUPLE1", "TUPLE2", "TUPLE3", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE", "NEWTRUE", "NEWFALSE"),
    *("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINPUT", "LONG_BINPUT", "MEMOIZE", "BINGET", "LONG_BINGET"),
}
ODD = (OverflowError, DeprecationWarning)  # impossible lengths, impossible escapes
MOST_OPERATIONS = 1 << 23  # some hundred for each of the calls that a recorder keeps


class PickleError(ValueError):
    """The bytes are no pickle, are cut, or hold more than plain values."""


class _NoClasses(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise PickleError("it names a class")


def loads(data: bytes, most_operations: int = MOST_OPERATIONS) -> object:
    """The value of a pickle of plain values; PickleError where it is none. Memory is linear in the bytes."""
    count = 0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # of texts with an escape that is none
            for operation, argument, _ in pickletools.genops(data):
                count += 1
                if operation.name not in PLAIN:
                    raise PickleError(f"it holds the operation {operation.name}, which no dump needs")
                # A place of the memo far beyond those in use would be allocated with all before it.
                if count > most_operations or (operation.name.endswith("BINPUT") and int(str(argument)) > count):
                    raise PickleError("it is larger than any dump")
        return _NoClasses(io.BytesIO(data)).load()
    except PickleError:
        raise
    except (pickle.UnpicklingError, ValueError, TypeError, LookupError, AttributeError, EOFError, *ODD) as error:
        raise PickleError("it is cut or damaged") from error
