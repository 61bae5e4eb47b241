// SPDX-License-Identifier: GPL-2.0
/*
 * odp DEVICE GID-INDEX [implicit] [huge] [large] [count] [userfault]: memory on demand. What is
 * not there must come, what cannot come must fail the request that wants it, and advice must do
 * what it says; then the same of regions of the whole address space, which the device must have if
 * "implicit" is said and must refuse otherwise; what those cost the kernel, if "count" is said; of
 * very large regions, if "large" is said; of huge pages, which must be there if "huge" is said; and
 * of memory that a process provides, if "userfault" is said. Prints "ok NAME" or "not ok NAME: why"
 * per case. With "touch N" instead, it reads a page in each of N places, between two lines of
 * input.
 */
#include "loop.h"
#include "result.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { PAGE = 4096, PAGES = 64, LEN = PAGE * PAGES };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

/* Whether regions are of the whole address space. */
static int whole;

static unsigned char *map(int prot)
{
	unsigned char *p = mmap(NULL, LEN, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		loop_die("mmap");
	return p;
}

static struct ibv_mr *demand(struct loop *l, void *at, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, whole ? NULL : at, whole ? SIZE_MAX : LEN, access | IBV_ACCESS_ON_DEMAND);

	if (!mr)
		loop_die("reg_mr on demand");
	return mr;
}

static int resident(unsigned char *p)
{
	unsigned char in[PAGES];
	int n = 0;

	if (mincore(p, LEN, in))
		loop_die("mincore");
	for (int i = 0; i < PAGES; i++)
		n += in[i] & 1;
	return n;
}

static int completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 60000; i++, usleep(500))
		if (ibv_poll_cq(cq, 1, &wc))
			return wc.status;
	return -1;
}

/* One request from queue pair 0 to 1; its status. */
static int request(struct loop *l, enum ibv_wr_opcode opcode, void *at, struct ibv_mr *mr, void *to, struct ibv_mr *there,
		   uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)at, len, mr->lkey };
	struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED }, *b;

	w.wr.rdma.remote_addr = (uintptr_t)to;
	w.wr.rdma.rkey = there->rkey;
	if (ibv_post_send(l->qp[0], &w, &b))
		loop_die("post_send");
	return completion(l->cq[0]);
}

static void receive(struct loop *l, void *at, struct ibv_mr *mr, uint32_t len)
{
	struct ibv_sge s = { (uintptr_t)at, len, mr->lkey };
	struct ibv_recv_wr w = { .sg_list = &s, .num_sge = 1 }, *b;

	if (ibv_post_recv(l->qp[1], &w, &b))
		loop_die("post_recv");
}

static void advice(struct loop *l)
{
	enum { READ = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, WRITE = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
	       LOOK = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT };
	unsigned char *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = demand(l, p, ALL), *ro = demand(l, p, 0);

	result("nothing is there at first", resident(p), 0);
	result("prefetch without faulting", loop_advise(l, LOOK, 1, p, LEN, mr->lkey), 0);
	result("... brings nothing", resident(p), 0);
	result("prefetch for writing", loop_advise(l, WRITE, 1, p + PAGE, 2 * PAGE, mr->lkey), 0);
	result("... brings what it names", resident(p), 2);
	result("prefetch for reading", loop_advise(l, READ, 1, p, LEN, ro->lkey), 0);
	result("prefetch, not waiting for it", loop_advise(l, WRITE, 0, p + 8 * PAGE, PAGE, mr->lkey), 0);
	result("prefetch for writing where that is not allowed", loop_advise(l, WRITE, 1, p, LEN, ro->lkey), EPERM);
	result("prefetch with a wild key", loop_advise(l, READ, 1, p, LEN, mr->lkey ^ 0x1ff00), EINVAL);
	result("prefetch past the region", loop_advise(l, READ, 1, p, LEN + 1, mr->lkey), EFAULT);
	result("prefetch of a pinned region", loop_advise(l, READ, 1, l->buf, 100, l->mr->lkey), EINVAL);
	munmap(p + 32 * PAGE, PAGE);
	result("prefetch of what is unmapped", loop_advise(l, READ, 1, p, LEN, mr->lkey), EFAULT);
	if (ibv_dereg_mr(mr) || ibv_dereg_mr(ro))
		loop_die("dereg");
	munmap(p, LEN);
}

/* Everything comes from where there is nothing yet, and only that. */
static void comes(struct loop *l)
{
	unsigned char *p = map(PROT_READ | PROT_WRITE), *q = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *mr = demand(l, p, ALL), *to = demand(l, q, ALL);
	unsigned char *zero = calloc(1, LEN);

	loop_connect(l, ALL);
	memset(l->buf, 0x77, LEN);
	result("write to fresh pages", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, q + 100, to, 3 * PAGE), 0);
	result("... puts it there", memcmp(q + 100, l->buf, 3 * PAGE) || q[99] || q[100 + 3 * PAGE], 0);
	result("read of fresh pages", request(l, IBV_WR_RDMA_READ, l->buf, l->mr, q + 8 * PAGE, to, 3 * PAGE), 0);
	result("... finds zeros", memcmp(l->buf, zero, 3 * PAGE), 0);
	result("write after that read", request(l, IBV_WR_RDMA_WRITE, l->buf + LEN / 2, l->mr, q + 8 * PAGE, to, 3 * PAGE), 0);
	result("... puts it there", memcmp(q + 8 * PAGE, l->buf + LEN / 2, 3 * PAGE), 0);
	result("write from fresh pages", request(l, IBV_WR_RDMA_WRITE, p, mr, q, to, PAGE), 0);
	result("... finds zeros", memcmp(q, zero, PAGE), 0);
	memset(l->buf, 0x66, LEN);
	result("read into fresh pages", request(l, IBV_WR_RDMA_READ, p + 8 * PAGE, mr, l->buf, l->mr, 5 * PAGE), 0);
	result("... puts it there", memcmp(p + 8 * PAGE, l->buf, 5 * PAGE), 0);
	receive(l, q + 32 * PAGE, to, 9 * PAGE);
	result("send into fresh pages", request(l, IBV_WR_SEND, l->buf, l->mr, NULL, to, 8 * PAGE + 5), 0);
	result("... is received", completion(l->cq[1]), 0);
	result("... puts it there", memcmp(q + 32 * PAGE, l->buf, 8 * PAGE + 5), 0);
	/* A child shares the pages until somebody writes. */
	int pipes[2];
	if (pipe(pipes))
		loop_die("pipe");
	pid_t child = fork();
	if (!child) {
		char c;
		close(pipes[1]);
		_exit(read(pipes[0], &c, 1) || q[32 * PAGE] != 0x66);
	}
	memset(l->buf, 0x55, LEN);
	result("write to pages shared with a child", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, q + 32 * PAGE, to, PAGE), 0);
	result("... puts it there", memcmp(q + 32 * PAGE, l->buf, PAGE), 0);
	close(pipes[1]);
	int status = -1;
	waitpid(child, &status, 0);
	result("... and not into the child's", status, 0);
	/* The region outlives what it was made of: new memory at the same address. */
	munmap(q, LEN);
	if (mmap(q, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != q)
		loop_die("mmap");
	result("write to memory mapped anew", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, q + 2 * PAGE, to, 2 * PAGE), 0);
	result("... puts it there", memcmp(q + 2 * PAGE, l->buf, 2 * PAGE), 0);
	loop_disconnect(l);
	if (ibv_dereg_mr(mr) || ibv_dereg_mr(to))
		loop_die("dereg");
	munmap(p, LEN);
	munmap(q, LEN);
	free(zero);
}

/* What cannot come is an error of the request that wants it. */
static void comes_not(struct loop *l)
{
	static const struct { const char *name; int remote, prot; enum ibv_wr_opcode opcode; int status; } cases[] = {
		{ "write to unmapped memory", 1, -1, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
		{ "read of unmapped memory", 1, -1, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR },
		{ "write from unmapped memory", 0, -1, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR },
		{ "read into unmapped memory", 0, -1, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR },
		{ "write to read-only memory", 1, PROT_READ, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR },
		{ "read of read-only memory", 1, PROT_READ, IBV_WR_RDMA_READ, IBV_WC_SUCCESS },
		{ "write from read-only memory", 0, PROT_READ, IBV_WR_RDMA_WRITE, IBV_WC_SUCCESS },
		{ "read into read-only memory", 0, PROT_READ, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		unsigned char *p = map(PROT_READ | PROT_WRITE);
		struct ibv_mr *mr = demand(l, p, ALL);

		loop_connect(l, ALL);
		if (cases[i].prot < 0)
			munmap(p, LEN);
		else
			mprotect(p, LEN, cases[i].prot);
		result(cases[i].name, cases[i].remote ?
		       request(l, cases[i].opcode, l->buf, l->mr, p + PAGE, mr, 2 * PAGE) :
		       request(l, cases[i].opcode, p + PAGE, mr, l->buf, l->mr, 2 * PAGE), cases[i].status);
		loop_disconnect(l);
		if (ibv_dereg_mr(mr))
			loop_die("dereg");
		if (cases[i].prot >= 0)
			munmap(p, LEN);
	}
}

/* Registration, and the end of everything with faults under way. */
static void registration(struct loop *l)
{
	struct ibv_mr *mr;

	if (whole)
		goto destroyed;
	mr = ibv_reg_mr(l->pd, (void *)0x10000, LEN, ALL | IBV_ACCESS_ON_DEMAND);
	result("a region of memory that is not there yet", !!mr, 1);
	if (mr)
		ibv_dereg_mr(mr);
destroyed:
	for (int i = 0; i < 50; i++) {
		unsigned char *p = map(PROT_READ | PROT_WRITE);
		struct ibv_sge s = { (uintptr_t)l->buf, LEN, l->mr->lkey };
		struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE }, *b;

		mr = demand(l, p, ALL);
		loop_connect(l, ALL);
		w.wr.rdma.remote_addr = (uintptr_t)p;
		w.wr.rdma.rkey = mr->rkey;
		if (ibv_post_send(l->qp[0], &w, &b))
			loop_die("post_send");
		if (i % 2)
			usleep(i * 20);
		if (i % 3 == 0)
			loop_disconnect(l);
		if (ibv_dereg_mr(mr))
			loop_die("dereg");
		munmap(p, LEN);
		if (i % 3)
			loop_disconnect(l);
	}
	result("destroyed while pages come", 0, 0);
}

/* What only regions of the whole address space have. */

enum { CHUNK = 2 << 20, FAR = 2500 };

static int general_caps(struct loop *l)
{
	struct ibv_device_attr_ex a;

	if (ibv_query_device_ex(l->ctx, NULL, &a))
		loop_die("query_device");
	return a.odp_caps.general_caps;
}

/* The n-th of many addresses, each in 2 MiB of its own, some across the end of a page. */
static unsigned char *far_at(unsigned char *p, size_t n)
{
	return p + n * CHUNK + n * 7919 * 8 % (CHUNK - 128);
}

/* More places than the driver keeps at a time, and each of them comes back. */
static void scattered(struct loop *l, struct ibv_mr *mr)
{
	int wrong = 0, failed = 0;
	unsigned char *p = mmap(NULL, (size_t)FAR * CHUNK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		loop_die("mmap");
	madvise(p, (size_t)FAR * CHUNK, MADV_NOHUGEPAGE);
	loop_connect(l, ALL);
	for (size_t i = 0; i < FAR; i++) {
		memset(l->buf, (int)i | 1, 128);
		failed += request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, far_at(p, i), mr, 128) != 0;
	}
	for (size_t i = 0; i < FAR; i++) {
		memset(l->buf, (int)i | 1, 128);
		wrong += !!memcmp(far_at(p, i), l->buf, 128);
	}
	result("writes to thousands of places", failed, 0);
	result("... put it there", wrong, 0);
	wrong = failed = 0;
	for (size_t i = 0; i < FAR; i += 7) {
		unsigned char want[128];
		memset(far_at(p, i), (int)i | 2, 128);
		memset(want, (int)i | 2, 128);
		failed += request(l, IBV_WR_RDMA_READ, l->buf, l->mr, far_at(p, i), mr, 128) != 0;
		wrong += !!memcmp(want, l->buf, 128);
	}
	result("reads of thousands of places", failed, 0);
	result("... find it there", wrong, 0);
	munmap(p, (size_t)FAR * CHUNK);
	result("... not when it is unmapped", request(l, IBV_WR_RDMA_READ, l->buf, l->mr, far_at(p, 7), mr, 8),
	       IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
}

/* A message over several chunks, and from there into itself. */
static void long_message(struct loop *l, struct ibv_mr *mr)
{
	size_t len = 3 * CHUNK + 5000;
	unsigned char *p = mmap(NULL, 2 * len + 2 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *q = p + len + CHUNK;

	if (p == MAP_FAILED)
		loop_die("mmap");
	for (size_t i = 0; i < len; i++)
		p[i] = i * 2654435761u >> 13;
	loop_connect(l, ALL);
	result("a long write within it", request(l, IBV_WR_RDMA_WRITE, p, mr, q, mr, len), 0);
	result("... puts it there", memcmp(p, q, len) || q[len] || q[-1], 0);
	memset(p, 0, len);
	result("a long read within it", request(l, IBV_WR_RDMA_READ, p, mr, q, mr, len), 0);
	result("... puts it there", memcmp(p, q, len), 0);
	loop_disconnect(l);
	munmap(p, 2 * len + 2 * CHUNK);
}

/* A peer who tries addresses: nothing is there, and it stays so. */
static void wild(struct loop *l, struct ibv_mr *mr)
{
	static const uintptr_t at[] = { 0, 8, 0x7fffffffeff0, 0x7ffffffff000, 0x800000000000, 0xffff888000000000,
					0xffffffff81000000, -16ul, -8ul, -4ul };
	int bad_status = 0;

	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++)
		for (int write = 0; write < 2; write++) {
			loop_connect(l, ALL);
			int got = request(l, write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, l->buf, l->mr,
					  (void *)at[i], mr, 8);
			/* The end of the stack's address range is nobody's, or the stack. */
			bad_status += got != IBV_WC_REM_ACCESS_ERR;
			loop_disconnect(l);
		}
	result("addresses that no process has", bad_status, 0);
}

static void rights(struct loop *l)
{
	unsigned char *p = map(PROT_READ | PROT_WRITE);
	struct ibv_mr *ro = demand(l, p, IBV_ACCESS_REMOTE_READ), *none = demand(l, p, 0);

	loop_connect(l, ALL);
	result("read with the right to", request(l, IBV_WR_RDMA_READ, l->buf, l->mr, p, ro, 8), 0);
	result("write without the right to", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, p, ro, 8), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	loop_connect(l, ALL);
	result("read without the right to", request(l, IBV_WR_RDMA_READ, l->buf, l->mr, p, none, 8), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	loop_connect(l, ALL);
	result("read into it without the right to", request(l, IBV_WR_RDMA_READ, p, none, l->buf, l->mr, 8),
	       IBV_WC_LOC_PROT_ERR);
	loop_disconnect(l);
	ibv_dereg_mr(ro);
	ibv_dereg_mr(none);
	munmap(p, LEN);
}

static void some_advice(struct loop *l, struct ibv_mr *mr)
{
	enum { READ = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, WRITE = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE,
	       LOOK = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT };
	unsigned char *p = map(PROT_READ | PROT_WRITE);

	result("prefetch without faulting", loop_advise(l, LOOK, 1, p, LEN, mr->lkey), 0);
	result("... brings nothing", resident(p), 0);
	result("prefetch for writing", loop_advise(l, WRITE, 1, p + PAGE, 2 * PAGE, mr->lkey), 0);
	result("... brings what it names", resident(p), 2);
	munmap(p + 32 * PAGE, PAGE);
	result("prefetch of what is unmapped", loop_advise(l, READ, 1, p, LEN, mr->lkey), EFAULT);
	result("prefetch beyond all", loop_advise(l, READ, 1, (void *)-4096ul, 4095, mr->lkey), EFAULT);
	munmap(p, LEN);
}

/* A process whose region outlives it: a child of its keeps the files open. */
static void gone(struct loop *l, const char *device)
{
	struct { uint32_t qpn, rkey; uint64_t at; pid_t keeper; } it;
	int there[2], back[2], status;
	char c = 0;

	if (pipe(there) || pipe(back))
		loop_die("pipe");
	loop_connect(l, ALL);
	pid_t child = fork();
	if (!child) {
		struct loop own;
		unsigned char *p = map(PROT_READ | PROT_WRITE);

		loop_open(&own, device, l->gid_index);
		loop_connect(&own, ALL);
		struct ibv_mr *mr = demand(&own, p, ALL);
		if (read(there[0], &it.qpn, sizeof(it.qpn)) != sizeof(it.qpn))
			_exit(1);
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
		ibv_modify_qp(own.qp[1], &reset, IBV_QP_STATE);
		if (loop_to_rts(&own, 1, it.qpn, ALL))
			_exit(1);
		it.qpn = own.qp[1]->qp_num;
		it.rkey = mr->rkey;
		it.at = (uintptr_t)p;
		it.keeper = fork();
		if (!it.keeper)
			for (;;)
				pause();
		if (write(back[1], &it, sizeof(it)) != sizeof(it) || read(there[0], &c, 1) != 1)
			_exit(1);
		_exit(0);
	}
	if (write(there[1], &l->qp[0]->qp_num, 4) != 4 || read(back[0], &it, sizeof(it)) != sizeof(it))
		loop_die("pipe");
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct ibv_mr far_mr = { .rkey = it.rkey };
	ibv_modify_qp(l->qp[0], &reset, IBV_QP_STATE);
	if (loop_to_rts(l, 0, it.qpn, ALL))
		loop_die("connect");
	result("write to another process", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)it.at, &far_mr, PAGE), 0);
	if (write(there[1], &c, 1) != 1 || waitpid(child, &status, 0) != child)
		loop_die("wait");
	result("... which ends", status, 0);
	result("write to a process that has ended",
	       request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)it.at, &far_mr, PAGE), IBV_WC_REM_ACCESS_ERR);
	kill(it.keeper, SIGKILL);
	for (int i = 0; i < 4; i++)
		close((int[]){ there[0], there[1], back[0], back[1] }[i]);
	loop_disconnect(l);
}

/* A number of kB in a file of "NAME: number kB" lines. */
static long kilobytes(const char *path, const char *name)
{
	char line[200];
	long n = -1;
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, strlen(name)))
			n = atol(line + strlen(name));
	if (f)
		fclose(f);
	return n;
}

/* What a peer who tries addresses costs: advice does the same without a packet. */
static void bounded(struct loop *l)
{
	enum { READ = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, CHUNKS = 6000 };
	struct ibv_mr *mr = demand(l, NULL, ALL);
	unsigned char *p = mmap(NULL, (size_t)CHUNKS * CHUNK, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int wrong = 0;

	if (p == MAP_FAILED)
		loop_die("mmap");
	madvise(p, (size_t)CHUNKS * CHUNK, MADV_NOHUGEPAGE);
	munmap(p, (size_t)CHUNKS * CHUNK);
	long before = kilobytes("/proc/meminfo", "SUnreclaim:");
	for (size_t i = 0; i < CHUNKS; i++)
		wrong += loop_advise(l, READ, 1, p + i * CHUNK, PAGE, mr->lkey) != EFAULT;
	long after = kilobytes("/proc/meminfo", "SUnreclaim:");
	result("thousands of places where nothing is", wrong, 0);
	result("... cost nothing", after - before > 6000 ? after - before : 0, 0);
	if (mmap(p, (size_t)CHUNKS * CHUNK, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != p)
		loop_die("mmap");
	madvise(p, (size_t)CHUNKS * CHUNK, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < CHUNKS; i++)
		wrong += loop_advise(l, READ, 1, p + i * CHUNK, PAGE, mr->lkey) != 0;
	after = kilobytes("/proc/meminfo", "SUnreclaim:");
	result("thousands of places where something is", wrong, 0);
	result("... cost something", after - before > 6000, 1);
	/* 10 kB for each of 2048. */
	result("... but not without bounds", after - before > 30000 ? after - before : 0, 0);
	if (ibv_dereg_mr(mr))
		loop_die("dereg");
	munmap(p, (size_t)CHUNKS * CHUNK);
	after = kilobytes("/proc/meminfo", "SUnreclaim:");
	result("... and for no longer than the region", after - before > 6000 ? after - before : 0, 0);
}

static void implicit(struct loop *l, const char *device, int count)
{
	struct ibv_mr *mr;

	result("implicit memory is offered", !!(general_caps(l) & IBV_ODP_SUPPORT_IMPLICIT), 1);
	mr = ibv_reg_mr_iova(l->pd, NULL, SIZE_MAX, PAGE, ALL | IBV_ACCESS_ON_DEMAND);
	result("the whole address space elsewhere", mr ? 0 : errno, EINVAL);
	mr = ibv_reg_mr(l->pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_FLUSH_PERSISTENT);
	result("the whole address space, persistent", mr ? 0 : errno, EINVAL);
	whole = 1;
	prefix = "implicit: ";
	registration(l);
	comes(l);
	comes_not(l);
	mr = demand(l, NULL, ALL);
	scattered(l, mr);
	long_message(l, mr);
	wild(l, mr);
	some_advice(l, mr);
	if (ibv_dereg_mr(mr))
		loop_die("dereg");
	rights(l);
	gone(l, device);
	if (count)
		bounded(l);
	whole = 0;
	prefix = "";
}

static long cpu_ms(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
		loop_die("clock");
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static long kernel_kilobytes(void)
{
	return kilobytes("/proc/meminfo", "SUnreclaim:") + kilobytes("/proc/meminfo", "VmallocUsed:");
}

/* A region of very much memory, of which little is ever used: only that costs something. */
static void large(struct loop *l, int count)
{
	enum { READ = IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH, CHUNKS = 6000 };
	const size_t len = 64ul << 30, first = 100;
	const uint64_t iova = 0x5000000000ul + first;
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int wrong = 0;

	if (p == MAP_FAILED)
		loop_die("mmap of 64 GiB");
	madvise(p, len, MADV_NOHUGEPAGE);
	prefix = "64 GiB: ";
	long before = kernel_kilobytes(), began = cpu_ms();
	struct ibv_mr *mr = ibv_reg_mr_iova(l->pd, p + first, len - 2 * first, iova, ALL | IBV_ACCESS_ON_DEMAND);
	long took = cpu_ms() - began, cost = kernel_kilobytes() - before;
	result("registration", mr ? 0 : errno, 0);
	if (!mr)
		return;
	result("... takes no time", took > 50 ? took : 0, 0);
	if (count)
		result("... costs nothing", cost > 2000 ? cost : 0, 0);

	/* All of the memory, with the first byte at iova. */
	static const size_t at[] = { 0, 1, CHUNK - 300, (17ul << 30) - 5000, (63ul << 30) + 12345 };
	loop_connect(l, ALL);
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		memset(l->buf, i + 1, LEN);
		wrong += request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)(iova + at[i]), mr, 9000) != 0;
		wrong += memcmp(p + first + at[i], l->buf, 9000) != 0;
		wrong += request(l, IBV_WR_RDMA_READ, l->buf + LEN, l->mr, (void *)(iova + at[i]), mr, 9000) != 0;
		wrong += memcmp(l->buf + LEN, l->buf, 9000) != 0;
	}
	result("writes and reads", wrong, 0);
	uint64_t last = iova + len - 2 * first - 8;
	result("write to the last bytes", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)last, mr, 8), 0);
	result("... puts them there", memcmp(p + len - first - 8, l->buf, 8) || p[len - first], 0);
	/* The key is local, too. */
	memset(p + (5ul << 30), 0x3c, 3 * PAGE);
	struct ibv_mr *from = mr;
	result("write from it", request(l, IBV_WR_RDMA_WRITE, (void *)(iova - first + (5ul << 30)), from, l->buf, l->mr, 3 * PAGE), 0);
	result("... finds it", memcmp(l->buf, p + (5ul << 30), 3 * PAGE), 0);
	result("write beyond it", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)(last + 1), mr, 8), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	loop_connect(l, ALL);
	result("write before it", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)(iova - 1), mr, 8), IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);
	loop_connect(l, ALL);
	munmap(p + (3ul << 30), PAGE);
	result("write to what is unmapped", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, (void *)(iova - first + (3ul << 30)), mr, 8),
	       IBV_WC_REM_ACCESS_ERR);
	loop_disconnect(l);

	wrong = 0;
	began = cpu_ms();
	for (size_t i = 0; i < CHUNKS; i++)
		wrong += loop_advise(l, READ, 1, (void *)(iova + i * CHUNK), PAGE, mr->lkey) != 0;
	long brought = cpu_ms() - began;
	result("thousands of places that are used, and one that is unmapped", wrong, 1);
	cost = kernel_kilobytes() - before;
	if (count) {
		result("... cost something", cost > 40000, 1);
		result("... and not more than they must", cost > 90000 ? cost : 0, 0);
	}
	began = cpu_ms();
	if (ibv_dereg_mr(mr))
		loop_die("dereg");
	took = cpu_ms() - began;
	printf("# %d places: %ld ms to fault them in, %ld ms to end the region\n", CHUNKS, brought, took);
	/* Whatever the speed of the machine. As long as these on a busy one, with KASAN. */
	result("its end takes no longer than twice the faults", took > 2 * brought ? took : 0, 0);
	cost = kernel_kilobytes() - before;
	if (count)
		result("... and gives all back", cost > 6000 ? cost : 0, 0);
	munmap(p, len);

	/* Many such regions, of which nothing is used. */
	enum { REGIONS = 400 };
	static struct ibv_mr *many[REGIONS];
	p = mmap(NULL, 1ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		loop_die("mmap of 1 GiB");
	prefix = "400 regions of 1 GiB: ";
	before = kernel_kilobytes();
	wrong = 0;
	for (int i = 0; i < REGIONS; i++)
		wrong += !(many[i] = ibv_reg_mr(l->pd, p, 1ul << 30, ALL | IBV_ACCESS_ON_DEMAND));
	result("registration", wrong, 0);
	cost = kernel_kilobytes() - before;
	if (count)
		result("... costs nothing", cost > 4000 ? cost : 0, 0);
	began = cpu_ms();
	for (int i = 0; i < REGIONS; i++)
		if (many[i] && ibv_dereg_mr(many[i]))
			loop_die("dereg");
	took = cpu_ms() - began;
	result("their end takes not long", took > 2000 ? took : 0, 0);
	munmap(p, 1ul << 30);
	prefix = "";
}

/* Reads a page in each of so many chunks by RDMA, so that a worker faults it in; then waits. */
static void touch(struct loop *l, int chunks)
{
	size_t len = (size_t)chunks * CHUNK;
	unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr = p == MAP_FAILED ? NULL : ibv_reg_mr(l->pd, p, len, ALL | IBV_ACCESS_ON_DEMAND);

	if (!mr)
		loop_die("reg_mr on demand");
	madvise(p, len, MADV_NOHUGEPAGE);
	loop_connect(l, ALL);
	puts("registered");
	fflush(stdout);
	getchar();
	for (int i = 0; i < chunks; i++)
		if (request(l, IBV_WR_RDMA_READ, l->buf, l->mr, p + i * CHUNK, mr, 8))
			loop_die("read");
	puts("touched");
	fflush(stdout);
	getchar();
}

/* Huge pages, whichever way the region gets at them. */

static void huge_pages(struct loop *l, const char *name, struct ibv_mr *mr, unsigned char *p, int demanded, size_t page)
{
	size_t some = 400000, at = CHUNK - 200000;

	prefix = name;
	memset(p, 0x11, 2 * CHUNK);
	for (size_t i = 0; i < some; i++)
		l->buf[i] = i * 2654435761u >> 11;
	loop_connect(l, ALL);
	result("write across huge pages", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, p + at, mr, some), 0);
	result("... puts it there", memcmp(p + at, l->buf, some) || p[at - 1] != 0x11 || p[at + some] != 0x11, 0);
	result("read across huge pages", request(l, IBV_WR_RDMA_READ, l->buf + l->len / 2, l->mr, p + at, mr, some), 0);
	result("... finds it", memcmp(l->buf + l->len / 2, l->buf, some), 0);
	result("write from huge pages", request(l, IBV_WR_RDMA_WRITE, p + at, mr, l->buf + l->len / 2, l->mr, some), 0);
	result("... finds it", memcmp(l->buf + l->len / 2, l->buf, some), 0);
	/* A part of it goes, and comes as zeros; a region that is not on demand has the old one. */
	madvise(p + CHUNK, page, MADV_DONTNEED);
	result("write after a page went", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, p + CHUNK + 9, mr, 16), 0);
	result(demanded ? "... is seen" : "... goes to the old one", !memcmp(p + CHUNK + 9, l->buf, 16), demanded);
	result("... and nothing is beside it", p[CHUNK + 8] || p[CHUNK + 25], 0);
	result("... nor before it", memcmp(p + CHUNK - 100, l->buf + (CHUNK - 100 - at), 100), 0);
	loop_disconnect(l);
	if (ibv_dereg_mr(mr))
		loop_die("dereg");
	prefix = "";
}

static void huge(struct loop *l, int all)
{
	for (int kind = 0; kind < 2 * (2 + all); kind++) {
		int tlb = kind % 2, demanded = kind / 2 > 0, wide = kind / 2 > 1;
		static const char *const names[] = { "pinned, transparent: ", "pinned, hugetlb: ", "on demand, transparent: ",
						     "on demand, hugetlb: ", "implicit, transparent: ", "implicit, hugetlb: " };
		unsigned char *m = mmap(NULL, tlb ? 2 * CHUNK : 3 * CHUNK, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | (tlb ? MAP_HUGETLB : 0), -1, 0);
		if (m == MAP_FAILED) {
			result(names[kind], errno, 0);
			continue;
		}
		unsigned char *p = m + (CHUNK - (uintptr_t)m % CHUNK) % CHUNK;
		if (!tlb) {
			long before = kilobytes("/proc/meminfo", "AnonHugePages:");
			madvise(p, 2 * CHUNK, MADV_HUGEPAGE);
			memset(p, 1, 2 * CHUNK);
			prefix = names[kind];
			result("pages are huge", kilobytes("/proc/meminfo", "AnonHugePages:") - before, 2 * CHUNK / 1024);
			prefix = "";
		}
		struct ibv_mr *mr = ibv_reg_mr(l->pd, wide ? NULL : p, wide ? SIZE_MAX : 2 * CHUNK,
					       ALL | (demanded ? IBV_ACCESS_ON_DEMAND : 0));
		if (!mr)
			loop_die("reg_mr of huge pages");
		huge_pages(l, names[kind], mr, p, demanded, tlb ? CHUNK : PAGE);
		munmap(m, tlb ? 2 * CHUNK : 3 * CHUNK);
	}
}

/* Provides pages of "userfault", each full of its number. */
static void *provide(void *arg)
{
	static unsigned char page[PAGE] __attribute__((aligned(4096)));
	int fd = *(int *)arg;
	struct uffd_msg msg;

	while (read(fd, &msg, sizeof(msg)) == sizeof(msg)) {
		struct uffdio_copy copy = { msg.arg.pagefault.address & ~(PAGE - 1ull), (uintptr_t)page, PAGE, 0, 0 };

		memset(page, copy.dst / PAGE, PAGE);
		ioctl(fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

/* A fault that a process answers waits without the lock of the address space. */
static void userfault(struct loop *l)
{
	unsigned char *p = map(PROT_READ | PROT_WRITE);
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC), wrong = 0;
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register all = { { (uintptr_t)p, LEN }, UFFDIO_REGISTER_MODE_MISSING, 0 };
	struct ibv_mr *mr = demand(l, p, ALL);
	pthread_t thread;

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all) ||
	    pthread_create(&thread, NULL, provide, &fd))
		loop_die("userfaultfd");
	loop_connect(l, ALL);
	result("read of pages that a process provides", request(l, IBV_WR_RDMA_READ, l->buf, l->mr, p + 100, mr, 3 * PAGE), 0);
	for (int i = 0; i < 3 * PAGE; i++)
		wrong += l->buf[i] != (unsigned char)((uintptr_t)(p + 100 + i) / PAGE);
	result("... finds them", wrong, 0);
	result("write to such pages", request(l, IBV_WR_RDMA_WRITE, l->buf, l->mr, p + 8 * PAGE + 50, mr, PAGE), 0);
	result("... puts it there", memcmp(p + 8 * PAGE + 50, l->buf, PAGE), 0);
	result("... and nothing beside it", p[8 * PAGE + 49] != (unsigned char)((uintptr_t)p / PAGE + 8), 0);
	loop_disconnect(l);
	ibv_dereg_mr(mr);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	close(fd);
	munmap(p, LEN);
}

static int said(int argc, char **argv, const char *word)
{
	for (int i = 3; i < argc; i++)
		if (!strcmp(argv[i], word))
			return 1;
	return 0;
}

int main(int argc, char **argv)
{
	struct loop l;

	if (argc < 3)
		return 2;
	loop_open(&l, argv[1], atoi(argv[2]));
	if (argc == 5 && said(argc, argv, "touch")) {
		touch(&l, atoi(argv[4]));
		return 0;
	}
	registration(&l);
	comes(&l);
	comes_not(&l);
	advice(&l);
	gone(&l, argv[1]);
	if (said(argc, argv, "userfault"))
		userfault(&l);
	if (said(argc, argv, "huge"))
		huge(&l, said(argc, argv, "implicit"));
	if (said(argc, argv, "implicit"))
		implicit(&l, argv[1], said(argc, argv, "count"));
	if (said(argc, argv, "large"))
		large(&l, said(argc, argv, "count"));
	if (!said(argc, argv, "implicit"))
		result("the whole address space is refused",
		       !!ibv_reg_mr(l.pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND), 0);
	loop_close(&l);
	return ended();
}
