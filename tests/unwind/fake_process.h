// A process of files that exist only here: the text of its maps, and its memory behind the reader
// that the run time uses. Files are ELF images with headers, an index of frames and the frames.
#pragma once

#include <elf.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "eh_frame_bytes.h"
#include "profile/mappings.h"

namespace strata::test {

inline constexpr size_t kImagePage = 4096;
inline constexpr size_t kImageCode = 0x1000;   // where an image's code begins
inline constexpr size_t kImageFrames = 0x800;  // and its frames, in the first page

// One page of headers and frames, then `code_size` bytes of code.
inline Bytes MakeImage(uintptr_t base, size_t code_size, const FrameBytes& frames) {
  Bytes image(kImagePage, 0);
  Elf64_Ehdr elf{};
  memcpy(elf.e_ident, ELFMAG, SELFMAG);
  elf.e_ident[EI_CLASS] = ELFCLASS64;
  elf.e_machine = EM_X86_64;
  elf.e_phoff = sizeof(elf);
  elf.e_phentsize = sizeof(Elf64_Phdr);
  elf.e_phnum = 3;
  Elf64_Phdr headers[3] = {};
  headers[0].p_type = PT_LOAD;
  headers[0].p_flags = PF_R;
  headers[0].p_filesz = headers[0].p_memsz = kImagePage;
  headers[1].p_type = PT_LOAD;
  headers[1].p_flags = PF_R | PF_X;
  headers[1].p_offset = headers[1].p_vaddr = kImageCode;
  headers[1].p_filesz = headers[1].p_memsz = code_size;
  headers[2].p_type = PT_GNU_EH_FRAME;
  headers[2].p_offset = headers[2].p_vaddr = kImageFrames - 16;
  memcpy(image.data(), &elf, sizeof(elf));
  memcpy(image.data() + sizeof(elf), headers, sizeof(headers));
  const uint8_t index[8] = {1, 0x1b, 0xff, 0xff, 12, 0, 0, 0};  // frames lie 12 bytes further on
  memcpy(image.data() + kImageFrames - 16, index, sizeof(index));
  const EhFrame section = frames.section();
  memcpy(image.data() + kImageFrames, section.bytes, section.size);
  (void)base;
  return image;
}

// For UnwindTables::Refresh.
inline auto Reading(std::string text) {
  return [text = std::move(text)](ScratchArray<char>& maps) {
    return maps.Append(text.data(), text.size());
  };
}

class FakeProcess : public MemoryReader {
 public:
  FakeProcess() : MemoryReader(ReadFiles) {}

  // A file of functions of 64 bytes each, of which all have frames of `frame_size`.
  void Open(uintptr_t base, size_t functions, int64_t frame_size, uint64_t inode) {
    FrameBytes frames(base + kImageFrames);
    const uint32_t common = frames.Common();
    for (size_t i = 0; i < functions; ++i) {
      frames.Frame(common, base + kImageCode + i * 64, 64,
                   {0x41, 0x0e, static_cast<uint8_t>(frame_size)});
    }
    frames.End();
    files_[base] = {MakeImage(base, functions * 64, frames), functions * 64, inode};
  }
  void Close(uintptr_t base) { files_.erase(base); }
  Bytes& image(uintptr_t base) { return files_[base].image; }
  // Happens before the next read at `from` or behind, once: what another thread of the process
  // does.
  void Before(uintptr_t from, std::function<void()> step) {
    step_at_ = from;
    step_ = std::move(step);
  }

  std::string Maps() const {
    std::string text;
    for (const auto& [base, file] : files_) {
      char line[256];
      const unsigned long code = base + kImageCode;
      const unsigned long end = code + (file.code_size + kImagePage - 1) / kImagePage * kImagePage;
      snprintf(line, sizeof(line),
               "%lx-%lx r--p 00000000 08:01 %lu /lib/f%lu.so\n"
               "%lx-%lx r-xp 00001000 08:01 %lu /lib/f%lu.so\n",
               static_cast<unsigned long>(base), code, file.inode, file.inode, code, end,
               file.inode, file.inode);
      text += line;
    }
    return text;
  }

 private:
  struct File {
    Bytes image;
    size_t code_size = 0;
    unsigned long inode = 0;
  };

  static bool ReadFiles(MemoryReader& self, uintptr_t from, void* to, size_t n) {
    auto& process = static_cast<FakeProcess&>(self);
    if (process.step_ && from >= process.step_at_) std::exchange(process.step_, nullptr)();
    for (const auto& [base, file] : process.files_) {
      if (from < base || from - base > file.image.size() || n > file.image.size() - (from - base))
        continue;
      memcpy(to, file.image.data() + (from - base), n);
      return true;
    }
    return false;
  }

  std::map<uintptr_t, File> files_;
  uintptr_t step_at_ = 0;
  std::function<void()> step_;
};

}  // namespace strata::test
