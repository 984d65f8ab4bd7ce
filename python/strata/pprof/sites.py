"""Which function of an allocation's call stack owns it: the innermost of the Python program if
there is one, else the innermost that does not merely wrap malloc. Used to rank functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

Stack = tuple[str, ...]  # function names, innermost first
MOST_NAME = 80  # characters of a name in a sentence; templates have thousands

# Functions that only pass a request on: the call site worth naming is whoever called them.
WRAPPER = re.compile(
    r"^(?:strata::.*|_*(?:libc_)?(?:malloc|calloc|realloc|reallocarray|aligned_alloc|memalign|posix_memalign"
    r"|valloc|strn?dup|asprintf|vasprintf)"
    r"|operator new.*|_Zn[wa].*|std::.*|__gnu_cxx::.*|_ZN?K?St.*|_ZN9__gnu_cxx.*"
    r"|z(?:try)?(?:malloc|calloc|realloc)\w*|x(?:malloc|calloc|realloc|strdup|zmalloc)\w*"
    r"|g_(?:malloc|slice_alloc|realloc|strdup)\w*|(?:PyMem|PyObject|_PyMem|_PyObject)_\w*[Aa]lloc\w*"
    r"|(?:sqlite3|CRYPTO|OPENSSL|je|mi)_\w*alloc\w*"
    r"|(?:av|my|ruby)_x?(?:malloc|calloc|realloc)\w*|apr_(?:pc?alloc(?:_debug)?|allocator_alloc)"
    r"|sqlite3\w*(?:M|Re)alloc\w*|ngx_(?:p?n?c?alloc|palloc_\w+|memalign|create_pool)"
    r"|_?e(?:m|c|re)alloc\w*|__zend_(?:m|c|re)alloc|_safe_\w*alloc|palloc\w*|repalloc\w*|AllocSet\w*|MemoryContextAlloc\w*"
    r"|os::(?:malloc|realloc|strdup)\(.*|AllocateHeap\(.*|v8::internal::(?:Malloced::operator|\w*Alloc\w*\().*"
    r"|v8::internal::Heap::AllocateExternalBackingStore\(.*|v8::internal::BackingStore::Allocate\(.*"
    r"|v8::ArrayBuffer::New\w*\(.*|node::NodeArrayBufferAllocator::.*"
    r"|Tcl(?:p|_|_Attempt)(?:Alloc|Realloc|DbCkalloc)|erts_(?:sys|alcu)_\w*alloc\w*|erts_alloc\w*"
    r"|alloc::.*|__rust_\w*alloc\w*|__rdl_\w*|sds(?:new|MakeRoom)\w*|_sds(?:new|MakeRoom)\w*)"
    r"(?:@.*|\.\w+)*$"
)
# A function of a Python program with its file, as Location.names has it: what the interpreter and
# its modules allocate below is done for it. Parts of C++ functions are called "f() (.cold)".
PYTHON = re.compile(r" \((?!\.)[^()/]+\)$")
ALLOCATES = re.compile(r"alloc(?!ator\b)|new", re.IGNORECASE)  # not in std::allocator<int>
UNKNOWN = "an unknown caller"
NAMELESS = re.compile(r"[@+]0x[0-9a-f]+$|^0x[0-9a-f]+$")  # a place in a stripped file


def is_wrapper(name: str) -> bool:
    return WRAPPER.match(name) is not None


def owners(stack: Sequence[str]) -> list[str]:
    """The functions that may own what was allocated, innermost first."""
    python = [name for name in stack if PYTHON.search(name)]
    return python or beyond_wrappers(stack)


def beyond_wrappers(stack: Sequence[str]) -> list[str]:
    """Those that are no wrappers. What a stripped file has no name for is one, too, if a wrapper
    is all that called it: sqlite3Malloc reaches malloc by such a function."""
    found: list[str] = []
    for name in stack:
        if is_wrapper(name):
            if ALLOCATES.search(name) and all(NAMELESS.search(inner) for inner in found):
                found.clear()
        else:
            found.append(name)
    return found


def call_site(stack: Sequence[str]) -> str:
    """The function that owns what was allocated, fit for a sentence."""
    callers = owners(stack)
    if not callers:  # the library itself: sampled before it could walk stacks
        return stack[0] if stack and not stack[0].startswith("strata::") else UNKNOWN
    if not NAMELESS.search(callers[0]):
        return shorten(callers[0])
    named = next((name for name in callers if not NAMELESS.search(name)), None)
    return shorten(callers[0]) + (f" (under {shorten(named)})" if named else "")


def shorten(name: str) -> str:
    half = MOST_NAME // 2
    return name if len(name) <= MOST_NAME else f"{name[:half]}…{name[-half:]}"
