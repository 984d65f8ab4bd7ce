// Profiles that the environment asks for: one at exit (STRATA_PROFILE), rewritten every so often
// before (STRATA_PROFILE_INTERVAL), and one each time a signal comes (STRATA_PROFILE_SIGNAL). The
// signal's handler notes that it came and wakes the background thread, which writes. Sits in
// report.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>

namespace strata {

void WriteProfileAtExit();
void RewriteProfile();  // the same file before, from the background thread

// Sets the handler, unless the signal has one or is ignored already. A program that sets its own
// later replaces ours, and the signal is its own again.
void InstallProfileSignal();
// Before the thread ends: its number may become another's.
void ForgetProfileThread();
void ForgetProfileWriterInChild();
// Whether this thread, in a signal handler, was about to write one.
bool WritesProfile();

// Whose descriptors those of the calling thread are.
enum class DescriptorTable : bool { kProgram, kOwn };

// The background thread's side. It never lets the signal be delivered to itself, so no handler of
// the program can run in it; it reads what the handler sent to it from a descriptor instead.
class ProfileSignal {
 public:
  // In the program's table it has no descriptor, and the signal is noticed at the next tick.
  void Open(DescriptorTable table);
  size_t FillPoll(pollfd* out) const;  // 0 or 1 entries
  void WriteIfAsked();
  void Retry() {  // at each tick
    resting_ = false;
    looks_ = 0;
  }

 private:
  bool Readable() const;
  void LookAgainLater();
  void Drain();

  int fd_ = -1;
  bool resting_ = false;  // readable for another reason; until the next tick
  uint32_t looks_ = 0;    // since the last tick, that found nothing to do
};

}  // namespace strata
