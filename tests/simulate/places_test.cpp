// Flash, machines and the meter of strata-simulate, on cases small enough to count by hand.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "flash.h"
#include "machines.h"
#include "meter.h"
#include "packers.h"

namespace strata::simulate::test {
namespace {

struct Device {
  Device(uint32_t blocks, BinClass classes, size_t files)
      : policy{{.base = 1000, .ratio = 10, .count = classes}, 2},
        bins(blocks),
        packer(std::make_unique<Flash::Packer>(policy, bins.data(), blocks)),
        flash(*packer, policy.ladder, files) {}

  BinPolicy policy;
  std::vector<PackedBin<AppendSlots<kPages>>> bins;
  std::unique_ptr<Flash::Packer> packer;
  Flash flash;
};

TEST(FlashTest, ABlockWhoseFilesAreGoneIsErasedWithoutAMove) {
  Device device(8, 1, 20);
  for (uint64_t file = 0; file < 20; ++file) {
    ASSERT_TRUE(device.flash.Place(file, file, kPages, 0));
    device.flash.Remove(file, file, kPages);
  }
  EXPECT_EQ(device.flash.written(), 20u * kPages);
  EXPECT_EQ(device.flash.moved(), 0u);
  EXPECT_EQ(device.flash.reclaimed(), 20u);
}

// Files of a page, one in ten of which stays; the others go in the order in which they came.
uint64_t MovedBy(BinClass classes, BinClass of_long) {
  constexpr uint64_t kFiles = 30'000, kLag = 2'000;
  Device device(30, classes, kFiles);
  for (uint64_t file = 0; file < kFiles; ++file) {
    const bool stays = file % 10 == 0 && file < 20'000;
    EXPECT_TRUE(device.flash.Place(file, file, 1, stays ? of_long : BinClass{0}));
    const bool has_old = file >= kLag && ((file - kLag) % 10 != 0 || file - kLag >= 20'000);
    if (has_old) device.flash.Remove(file - kLag, file, 1);
  }
  EXPECT_EQ(device.flash.written(), kFiles);
  return device.flash.moved();
}

TEST(FlashTest, FilesThatStayAreMovedUnlessTheyLieApart) {
  EXPECT_GT(MovedBy(1, 0), 1'000u);
  EXPECT_EQ(MovedBy(2, 1), 0u);
}

TEST(FlashTest, CleaningLosesNoPage) {
  std::mt19937_64 random(7);
  constexpr uint64_t kFiles = 8'000;
  Device device(40, 3, kFiles);
  std::vector<uint64_t> live, sizes(kFiles);
  uint64_t pages = 0;
  for (uint64_t file = 0; file < kFiles; ++file) {
    sizes[file] = 1 + random() % 40;
    while (pages + sizes[file] > 33 * kPages) {
      const size_t which = random() % live.size();
      device.flash.Remove(live[which], file, sizes[live[which]]);
      pages -= sizes[live[which]];
      live[which] = live.back();
      live.pop_back();
    }
    ASSERT_TRUE(device.flash.Place(file, file, sizes[file], static_cast<BinClass>(random() % 3)));
    live.push_back(file);
    pages += sizes[file];
    uint64_t on_flash = 0;
    for (uint32_t i = 0; file % 100 == 0 && i < device.packer->touched(); ++i) {
      const auto& bin = device.packer->bin(i);
      if (bin.state != BinState::kFree) on_flash += bin.live;
    }
    if (file % 100 == 0) {
      ASSERT_EQ(on_flash, pages);
    }
  }
  EXPECT_GT(device.flash.moved(), 0u);
}

TEST(FlashTest, MoreThanTheDeviceHoldsIsRefused) {
  Device device(6, 1, 1);
  EXPECT_FALSE(device.flash.Place(0, 0, uint64_t{7} * kPages, 0));
}

TEST(MachinesTest, AMachineIsOnWhileItHasAJob) {
  FirstFit<CountedSlots<kCores>> packer;
  Machines<FirstFit<CountedSlots<kCores>>> machines(packer, BinLadder{}, 3);
  ASSERT_TRUE(machines.Place(0, 0, 40, 0));
  ASSERT_TRUE(machines.Place(1, 0, 40, 0));
  ASSERT_TRUE(machines.Place(2, 0, 24, 0));
  EXPECT_EQ(machines.held(), 2u);
  machines.Remove(0, 1, 40);
  EXPECT_EQ(machines.held(), 2u);
  machines.Remove(2, 2, 24);
  EXPECT_EQ(machines.held(), 1u);
}

TEST(MeterTest, AveragesAreOverTime) {
  Meter meter(100, 200, 10, 2);
  meter.Set(4, 15);
  meter.Advance(120);
  meter.Set(2, 5);
  meter.Advance(110);  // a clock that went back
  meter.Advance(150);
  meter.Set(8, 80);
  meter.Advance(200);
  EXPECT_DOUBLE_EQ(meter.Part(0).held, (20 * 4 + 30 * 2) / 50.0);
  EXPECT_DOUBLE_EQ(meter.Part(0).live, (20 * 15 + 30 * 5) / 50.0);
  EXPECT_DOUBLE_EQ(meter.Part(0).bound, (20 * 2 + 30 * 1) / 50.0);
  EXPECT_DOUBLE_EQ(meter.Part(1).held, 8);
  EXPECT_DOUBLE_EQ(meter.Whole().held, (140 + 400) / 100.0);
  EXPECT_EQ(meter.held_peak(), 8u);
  EXPECT_EQ(meter.live_peak(), 80u);
}

TEST(MeterTest, ARunWithoutLengthHoldsNothing) {
  Meter meter(5, 5, 10, 3);
  meter.Set(1, 1);
  meter.Advance(5);
  EXPECT_EQ(meter.Whole().held, 0);
}

}  // namespace
}  // namespace strata::simulate::test
