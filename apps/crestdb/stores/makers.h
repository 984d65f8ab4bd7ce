// One function a structure, each in a file of its own.
#pragma once

#include <memory>

#include "store.h"

namespace crest {

std::unique_ptr<Store> MakeHarrisTable(const StoreOptions&);
std::unique_ptr<Store> MakePughTable(const StoreOptions&);
std::unique_ptr<Store> MakeChmTable(const StoreOptions&);
std::unique_ptr<Store> MakeCoarseSkiplist(const StoreOptions&);
std::unique_ptr<Store> MakeFraserSkiplist(const StoreOptions&);
std::unique_ptr<Store> MakeHerlihySkiplist(const StoreOptions&);
std::unique_ptr<Store> MakeCoarseBtree(const StoreOptions&);
std::unique_ptr<Store> MakeOccBtree(const StoreOptions&);
std::unique_ptr<Store> MakeMasstree(const StoreOptions&);
std::unique_ptr<Store> MakeArt(const StoreOptions&);

}  // namespace crest
