// Gathers a HeapStats from the process-wide instance and from what the kernel says. Sits in report.
#pragma once

#include "profile/heap_stats.h"
#include "profile/scratch_array.h"

namespace strata {

// What needs no look at page tables: cheap enough for mallinfo. Leaves the kernel's figures at 0.
void CollectCounts(HeapStats& out);

// All of it. Walks the heap's page tables.
void CollectStats(HeapStats& out);

// The same for people, ended by a zero byte behind its size. On a side stack. False: no memory.
bool FillText(ScratchArray<char>& text);

// To stderr, for a program that asked for that.
void PrintText(const ScratchArray<char>& text);

void WriteOccupancy(TextSink& sink);

}  // namespace strata
