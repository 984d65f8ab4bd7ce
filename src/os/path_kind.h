// What the path of an output file leads to, and so how it is to be written. Sits in os.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata {

enum class PathKind : uint8_t {
  kFile,        // a regular file, or nothing yet: to be replaced whole
  kInPlace,     // a device, a pipe: to be written into
  kDescriptor,  // a link under /proc to a descriptor, such as /dev/stdout: likewise
};

// Follows the symbolic links that end `path`, as far as root or the process's own user made them:
// where others can put a link, it may lead to any file. Such a link stays the path's end, and is of
// kind kFile, because a rename replaces the link itself. 0 or an errno: of what is there and can't
// be written, or should not (a directory, a disk, a pipe that another user put into /tmp).
int FollowPath(char* path, size_t capacity, PathKind& kind);

// The descriptor that a path of kDescriptor names; -1: none.
int DescriptorOf(const char* path);

}  // namespace strata
