// What the plugin calls of QEMU's interface for TCG plugins, version 1, which qemu-user 7.2 has.
// Debian packages no header for it, so the few declarations stand here; names and meaning are
// QEMU's (include/qemu/qemu-plugin.h of its source). Sits in tools/pageutil.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

using qemu_plugin_id_t = uint64_t;
using qemu_plugin_meminfo_t = uint32_t;
struct qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };

using qemu_plugin_udata_cb_t = void (*)(qemu_plugin_id_t id, void* data);
using qemu_plugin_vcpu_tb_trans_cb_t = void (*)(qemu_plugin_id_t id, qemu_plugin_tb* block);
using qemu_plugin_vcpu_mem_cb_t = void (*)(unsigned vcpu, qemu_plugin_meminfo_t info,
                                           uint64_t address, void* data);
using qemu_plugin_vcpu_syscall_cb_t = void (*)(qemu_plugin_id_t id, unsigned vcpu, int64_t number,
                                               uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                                               uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
using qemu_plugin_vcpu_syscall_ret_cb_t = void (*)(qemu_plugin_id_t id, unsigned vcpu,
                                                   int64_t number, int64_t result);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           qemu_plugin_vcpu_tb_trans_cb_t callback);
void qemu_plugin_register_vcpu_mem_cb(qemu_plugin_insn* instruction,
                                      qemu_plugin_vcpu_mem_cb_t callback,
                                      qemu_plugin_cb_flags flags, qemu_plugin_mem_rw which,
                                      void* data);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
                                          qemu_plugin_vcpu_syscall_cb_t callback);
void qemu_plugin_register_vcpu_syscall_ret_cb(qemu_plugin_id_t id,
                                              qemu_plugin_vcpu_syscall_ret_cb_t callback);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, qemu_plugin_udata_cb_t callback,
                                    void* data);

size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* block, size_t index);
uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn* instruction);
void* qemu_plugin_insn_haddr(const qemu_plugin_insn* instruction);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);

}  // extern "C"
