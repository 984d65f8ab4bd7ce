// Which units of a program are linked, if some of them are looked at whole elsewhere.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace lint {

// A build of many programs on one library would have the library as many times. Of the units that
// are `shared`, which another program has whole, those that something refers to stay, as a linker
// takes them from an archive; the rest cannot run in this program.
std::vector<std::string> needed(const std::vector<std::string>& files,
                                const std::set<std::string>& shared);

}  // namespace lint
