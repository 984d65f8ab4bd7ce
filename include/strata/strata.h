/* Strata's own C API, beside the malloc family that it replaces. Every function is thread-safe and
 * may be called at any time after the library is loaded; none allocates through malloc. Sizes are
 * in bytes. A program that is merely preloaded needs nothing of this. */
#ifndef STRATA_STRATA_H_
#define STRATA_STRATA_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* resident = live + internal_slack + caches + free_resident + metadata - untouched, within 2 % of
 * what the kernel says of the same memory. Where a seccomp filter forbids asking it, resident is an
 * upper bound, and untouched, hugepage_backed and coverage are 0. */
typedef struct strata_stats_data {
  size_t live; /* asked for and not freed (for small blocks estimated: see docs/statistics.md) */
  size_t internal_slack; /* size of the block minus what was asked */
  size_t caches;         /* free objects in per-CPU, per-thread and transfer caches */
  size_t free_resident;  /* free memory that the kernel still holds for us: in spans and in the page
                            heap */
  size_t released;       /* free memory given back to the kernel */
  size_t metadata;       /* resident memory of our own tables */
  size_t untouched;      /* in use but never written, so the kernel has no page for it */
  size_t resident;       /* heap and metadata pages that the kernel holds */
  size_t mapped;         /* address space mapped for the heap */
  size_t hugepage_backed; /* heap bytes that the kernel backs by hugepages */
  double coverage;        /* hugepage_backed / resident heap */
  uint64_t cache_hits;
  uint64_t cache_misses_alloc;
  uint64_t cache_misses_free;
} strata_stats_t;

/* Fills *out. Returns 0; or EINVAL when out is null. Walks the heap's page tables: about 1 ms a
 * GiB. */
int strata_stats(strata_stats_t* out);

/* Writes the statistics as JSON, cut at `capacity` and always ended by a zero byte. Returns the
 * length that the whole text needs without the zero byte, as snprintf does. */
size_t strata_stats_json(char* buffer, size_t capacity);

/* Gives free memory back to the kernel now, at least `bytes` if there is that much. Returns what
 * was given back. */
size_t strata_release(size_t bytes);

/* Changes a setting of the running process; `strata get PID` and docs/control.md list the names.
 * Returns 0; ENOENT when there is no such setting; EINVAL when the value makes no sense; ENOTSUP
 * when Strata stood down. */
int strata_set(const char* name, const char* value);

/* Writes a setting's value as text, cut at `capacity` and always ended by a zero byte. Returns the
 * whole length without the zero byte, as snprintf does; 0 when there is no such setting. */
size_t strata_get(const char* name, char* buffer, size_t capacity);

/* Writes a profile of the sampled allocations to the file descriptor as gzipped profile.proto, for
 * `go tool pprof` and others. kind: "heap" (live now), "allocs" (since the start), "peak" (live
 * when most was), "lifetime" or "fragmentation". Returns 0; EINVAL for another kind; ENOTSUP when
 * sampling is off and no sample was taken; or what went wrong with writing. docs/profiles.md
 * explains the values. */
int strata_profile(const char* kind, int fd);

/* The same for what happens in the next `milliseconds`, during which the caller sleeps. "heap" is
 * then what was allocated in that time and still lives. No cancellation point, as none of these
 * functions is. */
int strata_profile_window(const char* kind, unsigned milliseconds, int fd);

/* Mean bytes between two samples; 0: none are taken. STRATA_SAMPLE sets it at start. */
size_t strata_sample_interval(void);

/* "per-cpu (mm_cid)", "per-cpu (cpu_id)", "per-thread", or "none" when Strata stood down. */
const char* strata_cache_mode(void);

const char* strata_version(void);

#ifdef __cplusplus
}
#endif

#endif /* STRATA_STRATA_H_ */
