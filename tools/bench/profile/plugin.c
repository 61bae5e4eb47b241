// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU (version 9 or later) that counts how often each block of kernel code is
 * executed, and how many instructions and locked operations it has. The guest program
 * "mark" begins and ends a count; the end writes "OUT.N", lines of
 *
 *	ADDRESS INSTRUCTIONS LOCKED EXECUTIONS
 *
 * and one, "user", with the instructions of programs. One CPU only. An interrupted block
 * counts as a whole.
 *
 * The header of the interface does not come with every QEMU, so what is used is here.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*tb_trans)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*executed)(unsigned int cpu, void *data);
enum { NO_REGISTERS = 0 };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed cb, int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, executed cb, int flags, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t len);

#define VISIBLE __attribute__((visibility("default")))

VISIBLE int qemu_plugin_version = 3;

struct block {
	uint64_t address, count;
	uint32_t instructions, locked;
	struct block *next;
};

enum { BITS = 18 };

static struct block *blocks[1 << BITS];
static uint64_t in_programs;
static char out[512] = "profile";
static int number;

static void count_block(unsigned int cpu, void *block)
{
	(void)cpu;
	((struct block *)block)->count++;
}

static void count_program(unsigned int cpu, void *instructions)
{
	(void)cpu;
	in_programs += (uintptr_t)instructions;
}

static void begin(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (int i = 0; i < 1 << BITS; i++)
		for (struct block *b = blocks[i]; b; b = b->next)
			b->count = 0;
	in_programs = 0;
}

static void end(unsigned int cpu, void *data)
{
	char name[600];
	FILE *file;

	(void)cpu;
	(void)data;
	snprintf(name, sizeof(name), "%s.%d", out, number++);
	file = fopen(name, "w");
	if (!file)
		return;
	fprintf(file, "user 1 0 %" PRIu64 "\n", in_programs);
	for (int i = 0; i < 1 << BITS; i++)
		for (struct block *b = blocks[i]; b; b = b->next)
			if (b->count)
				fprintf(file, "%" PRIx64 " %u %u %" PRIu64 "\n", b->address, b->instructions, b->locked, b->count);
	fclose(file);
}

/* Whether an instruction locks: it has the prefix, or exchanges with memory. */
static bool locks(const struct qemu_plugin_insn *insn)
{
	unsigned char c[16] = { 0 };
	size_t len = qemu_plugin_insn_data(insn, c, sizeof(c));
	size_t at = 0;

	for (; at < len && (c[at] == 0x2e || c[at] == 0x3e || c[at] == 0x65 || c[at] == 0x66); at++)
		;
	if (c[at] == 0xf0)
		return true;
	/* Of this CPU's own memory: exchanging is how it is done, not to lock. */
	if (at && c[at - 1] == 0x65)
		return false;
	if ((c[at] & 0xf0) == 0x40)
		at++;
	return at + 1 < len && (c[at] == 0x86 || c[at] == 0x87) && c[at + 1] >> 6 != 3;
}

static void program(struct qemu_plugin_tb *tb, size_t n)
{
	static const unsigned char mark[] = { 0x0f, 0x1f, 0x84, 0x00, 0, 0x52, 0x58, 0x45 };

	for (size_t i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		unsigned char c[8];

		if (qemu_plugin_insn_data(insn, c, sizeof(c)) == sizeof(c) && !memcmp(c, mark, 4) && !memcmp(c + 5, mark + 5, 3))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, c[4] == 1 ? begin : end, NO_REGISTERS, NULL);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count_program, NO_REGISTERS, (void *)(uintptr_t)n);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	size_t n = qemu_plugin_tb_n_insns(tb);
	struct block **place, *b;

	(void)id;
	if (!(address >> 63)) {
		program(tb, n);
		return;
	}
	place = &blocks[(address * 0x9e3779b97f4a7c15ull) >> (64 - BITS)];
	for (b = *place; b; b = b->next)
		if (b->address == address && b->instructions == n)
			break;
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (!b)
			return;
		b->address = address;
		b->instructions = n;
		for (size_t i = 0; i < n; i++)
			b->locked += locks(qemu_plugin_tb_get_insn(tb, i));
		b->next = *place;
		*place = b;
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count_block, NO_REGISTERS, b);
}

VISIBLE int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			snprintf(out, sizeof(out), "%s", argv[i] + 4);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
