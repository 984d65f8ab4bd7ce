// A load: an image server on libjpeg and libvips. Its workers take requests from a socket each: an
// image, a width, a quality. They decode the original with libjpeg, resize it with libvips, encode
// it, and keep the answer in a cache that evicts the least recently used. The client is a process
// of its own, forked at the start, that allocates nothing. Originals are made by a formula.
//   images [--quick=1] [--scale=1] [--rest=4] [--workers=8] [--cache-mib=24]
// needs: vips libjpeg
#include <sys/socket.h>
#include <sys/wait.h>

#include <csetjmp>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <jpeglib.h>
#include <vips/vips.h>

#include "phases.h"

namespace {

constexpr unsigned kMostWorkers = 32;
constexpr unsigned kChannels = 3;

struct Request {
  uint32_t image;
  uint32_t width;
  uint32_t quality;
};

struct Order {  // of the server's main thread to the client
  uint64_t requests;
  uint32_t phase;  // 0 warm-up, 1 load, 2 burst
};

struct Pixels {
  std::vector<unsigned char> data;
  unsigned width = 0;
  unsigned height = 0;
};

void ReadAll(int fd, void* out, size_t size, bool* ended = nullptr) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = read(fd, static_cast<char*>(out) + done, size - done);
    if (n == 0 && done == 0 && ended != nullptr) {
      *ended = true;
      return;
    }
    if (n <= 0) bench::Die("a socket ended early");
    done += static_cast<size_t>(n);
  }
}

void WriteAll(int fd, const void* data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = write(fd, static_cast<const char*>(data) + done, size - done);
    if (n <= 0) bench::Die("cannot write to a socket");
    done += static_cast<size_t>(n);
  }
}

[[noreturn]] void RefuseJpeg(j_common_ptr) { bench::Die("libjpeg failed"); }

std::string Encode(const unsigned char* data, unsigned width, unsigned height, int quality) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  errors.error_exit = RefuseJpeg;
  jpeg_create_compress(&codec);
  unsigned char* out = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &out, &size);
  codec.image_width = width;
  codec.image_height = height;
  codec.input_components = kChannels;
  codec.in_color_space = JCS_RGB;
  jpeg_set_defaults(&codec);
  jpeg_set_quality(&codec, quality, TRUE);
  jpeg_start_compress(&codec, TRUE);
  while (codec.next_scanline < height) {
    auto* row = const_cast<unsigned char*>(data) + size_t{codec.next_scanline} * width * kChannels;
    jpeg_write_scanlines(&codec, &row, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::string file(reinterpret_cast<char*>(out), size);
  free(out);
  return file;
}

Pixels Decode(const std::string& file) {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  errors.error_exit = RefuseJpeg;
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  jpeg_start_decompress(&codec);
  Pixels pixels{{}, codec.output_width, codec.output_height};
  const size_t stride = size_t{pixels.width} * kChannels;
  pixels.data.resize(stride * pixels.height);
  while (codec.output_scanline < pixels.height) {
    unsigned char* row = pixels.data.data() + stride * codec.output_scanline;
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
  return pixels;
}

std::string Resized(const Pixels& pixels, unsigned width, int quality) {
  VipsImage* in = vips_image_new_from_memory(
      pixels.data.data(), pixels.data.size(), static_cast<int>(pixels.width),
      static_cast<int>(pixels.height), kChannels, VIPS_FORMAT_UCHAR);
  VipsImage* out = nullptr;
  const double scale = static_cast<double>(width) / pixels.width;
  if (in == nullptr || vips_resize(in, &out, scale, nullptr) != 0) bench::Die("libvips failed");
  size_t size = 0;
  void* data = vips_image_write_to_memory(out, &size);
  if (data == nullptr) bench::Die("libvips failed");
  std::string file =
      Encode(static_cast<unsigned char*>(data), static_cast<unsigned>(vips_image_get_width(out)),
             static_cast<unsigned>(vips_image_get_height(out)), quality);
  g_free(data);
  g_object_unref(out);
  g_object_unref(in);
  vips_thread_shutdown();
  return file;
}

// Waves of a frequency and direction that follow from the number.
std::string MakeOriginal(unsigned number) {
  bench::Random random(number + 3);
  Pixels pixels{{}, static_cast<unsigned>(random.Between(480, 1200)), 0};
  pixels.height = pixels.width * 3 / 4;
  pixels.data.resize(size_t{pixels.width} * pixels.height * kChannels);
  const uint64_t a = random.Between(1, 9), b = random.Between(1, 9), c = random.Between(1, 60);
  size_t at = 0;
  for (uint64_t y = 0; y < pixels.height; ++y) {
    for (uint64_t x = 0; x < pixels.width; ++x) {
      const uint64_t grain = random.Below(8);
      pixels.data[at++] = static_cast<unsigned char>(x * a / 4 + y * b / 3 + grain);
      pixels.data[at++] = static_cast<unsigned char>(x * y / (c * 16) + grain);
      pixels.data[at++] = static_cast<unsigned char>((x ^ y) + grain);
    }
  }
  return Encode(pixels.data.data(), pixels.width, pixels.height, 85);
}

// Answers by request, the least recently used evicted beyond so many bytes.
class AnswerCache {
 public:
  explicit AnswerCache(size_t most) : most_(most) {}

  bool Find(const std::string& key, std::string& answer) {
    const std::lock_guard lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return false;
    entries_.splice(entries_.begin(), entries_, found->second);
    answer = found->second->answer;
    return true;
  }

  void Insert(const std::string& key, const std::string& answer) {
    const std::lock_guard lock(mutex_);
    if (places_.contains(key)) return;
    entries_.push_front(Entry{key, answer});
    places_[key] = entries_.begin();
    held_ += answer.size();
    for (; held_ > most_ && entries_.size() > 1; ++evicted_) {
      held_ -= entries_.back().answer.size();
      places_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  uint64_t evicted() const { return evicted_; }

 private:
  struct Entry {
    std::string key;
    std::string answer;
  };
  std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_map<std::string, std::list<Entry>::iterator> places_;
  const size_t most_;
  size_t held_ = 0;
  uint64_t evicted_ = 0;
};

struct Server {
  std::vector<std::string> originals;  // complete before the first request
  AnswerCache cache;
  std::atomic<bool> ready{false};
  std::atomic<uint64_t> hits{0};
};

void Serve(Server& server, int socket) {
  for (;;) {
    Request request;
    bool ended = false;
    ReadAll(socket, &request, sizeof request, &ended);
    if (ended) return;
    if (!server.ready.load(std::memory_order_acquire)) bench::Die("asked too early");
    if (request.image >= server.originals.size() || request.width == 0) bench::Die("bad request");
    const std::string key = "image/" + std::to_string(request.image) + "/width/" +
                            std::to_string(request.width) + "/quality/" +
                            std::to_string(request.quality);
    std::string answer;
    if (server.cache.Find(key, answer)) {
      server.hits.fetch_add(1, std::memory_order_relaxed);
    } else {
      answer = Resized(Decode(server.originals[request.image]), request.width,
                       static_cast<int>(request.quality));
      server.cache.Insert(key, answer);
    }
    const auto size = static_cast<uint32_t>(answer.size());
    WriteAll(socket, &size, sizeof size);
    WriteAll(socket, answer.data(), answer.size());
  }
}

// One connection's share of an order. Half of the requests are for few answers; in the burst all
// are for large ones that nobody asked for yet.
void Ask(int socket, unsigned index, unsigned workers, uint32_t images, const Order& order) {
  bench::Random random(order.phase * 1000 + index + 5);
  char sink[65536];
  for (uint64_t i = index; i < order.requests; i += workers) {
    Request request{static_cast<uint32_t>(random.Below(images)), 0, 0};
    const bool popular = order.phase != 2 && random.Below(2) == 0;
    request.width = static_cast<uint32_t>(order.phase == 2 ? random.Between(700, 1100)
                                          : popular        ? 160 * random.Between(1, 3)
                                                           : random.Between(64, 480));
    request.quality = static_cast<uint32_t>(popular ? 80 : random.Between(60, 90));
    WriteAll(socket, &request, sizeof request);
    uint32_t size = 0;
    ReadAll(socket, &size, sizeof size);
    while (size != 0) {
      const uint32_t part = size < sizeof sink ? size : sizeof sink;
      ReadAll(socket, sink, part);
      size -= part;
    }
  }
}

[[noreturn]] void RunClient(int control, const int* sockets, unsigned workers, uint32_t images) {
  for (;;) {
    Order order;
    bool ended = false;
    ReadAll(control, &order, sizeof order, &ended);
    if (ended) _exit(0);
    bench::RunThreads(workers, [&](unsigned index) {
      Ask(sockets[index], index, workers, images, order);
      return bench::Tally{};
    });
    WriteAll(control, &order, 1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options(argc, argv);
  const bool quick = options.Count("quick", 0) != 0;
  const auto workers = static_cast<unsigned>(options.Count("workers", 8));
  const auto requests = static_cast<uint64_t>(options.Scaled("requests", quick ? 80 : 2000));
  const auto images = static_cast<uint32_t>(options.Count("images", quick ? 4 : 24));
  const auto cache_bytes = static_cast<size_t>(options.Count("cache-mib", quick ? 1 : 24)) << 20;
  const double rest = options.Number("rest", quick ? 0.5 : 4);
  options.RejectUnknown();
  if (workers == 0 || workers > kMostWorkers || images == 0 || requests < 8)
    bench::Die("1 to 32 workers, at least one image and 8 requests");

  int ours[kMostWorkers + 1], theirs[kMostWorkers + 1];
  for (unsigned i = 0; i <= workers; ++i) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) bench::Die("no socket");
    ours[i] = pair[0];
    theirs[i] = pair[1];
  }
  const pid_t client = fork();
  if (client < 0) bench::Die("cannot fork");
  for (unsigned i = 0; i <= workers; ++i) close(client == 0 ? ours[i] : theirs[i]);
  if (client == 0) RunClient(theirs[workers], theirs, workers, images);

  if (vips_init(argv[0]) != 0) bench::Die("libvips does not start");
  vips_concurrency_set(1);
  vips_cache_set_max(0);  // it would keep our buffers
  bench::Phases phases("images");
  Server server{{}, AnswerCache(cache_bytes), {}, {}};

  const auto order = [&](uint64_t count, uint32_t phase) {
    const Order sent{count, phase};
    WriteAll(ours[workers], &sent, sizeof sent);
    char done;
    ReadAll(ours[workers], &done, 1);
    phases.Worked(count);
  };
  bench::RunThreads(workers + 1, [&](unsigned index) {
    if (index < workers) {
      Serve(server, ours[index]);
    } else {
      phases.Begin("warm-up", false);
      for (unsigned i = 0; i < images; ++i) server.originals.push_back(MakeOriginal(i));
      server.ready.store(true, std::memory_order_release);
      order(requests / 8, 0);
      phases.Begin("load", true);
      order(requests, 1);
      phases.Begin("burst", true);
      order(requests / 8, 2);
      phases.Rest(rest);
      close(ours[workers]);  // the client ends, and with it the workers' sockets
    }
    return bench::Tally{};
  });
  int status = 0;
  if (waitpid(client, &status, 0) != client || status != 0) bench::Die("the client failed");

  bench::Report report(phases.program());
  report.Add("workers=%u hits=%llu evicted=%llu", workers,
             static_cast<unsigned long long>(server.hits.load()),
             static_cast<unsigned long long>(server.cache.evicted()));
  phases.AddTo(report);
  report.Finish();
  return 0;
}
