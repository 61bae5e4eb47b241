// SPDX-License-Identifier: GPL-2.0
/*
 * xfer: moves data over an RC queue pair and checks every byte of it.
 *
 * Two processes, one of them the server (-s), meet on a UNIX socket (-c PATH; it
 * crosses net namespaces) or over TCP (-t HOST:PORT). In each round the client
 * posts a seeded mix of operations at once: SEND, SEND with immediate, RDMA WRITE,
 * RDMA WRITE with immediate, RDMA READ, FETCH AND ADD, COMPARE AND SWAP; if -k asks for
 * them also SEND with invalidate (of a memory window), ATOMIC WRITE, and RDMA WRITE with
 * a FLUSH behind it (global; with -P persistent by turns, for which the
 * server's memory must be on demand: no other may be called persistent without being it). Both sides derive the mix from the round's number, so each can check what it received, and
 * that nothing outside was touched. With -O the memory is registered on demand, and a
 * thread takes pages away all the time; with -I too, as a part of the whole address space,
 * and 2 MiB end in the middle of it. Exit 0: all rounds were right; 1: a verbs call
 * or a completion failed; 2: wrong data.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include "rings.h"

enum { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, FETCH_ADD, CMP_SWAP, SEND_INV, ATOMIC_WRITE, FLUSH, KINDS };
/* The kinds that any verbs program can post; the others need an extended queue pair. */
enum { OLDER = (1 << SEND_INV) - 1 };
enum { MAX_OPS = 64, GUARD = 64 };

struct peer {
	uint32_t qpn, psn, rkey;
	uint32_t pad;
	uint64_t addr;
	union ibv_gid gid;
};

struct plan {
	int kind;
	uint32_t len, imm;
	uint64_t seed;
};

static int server, gid_index, ops = 16, kinds_mask = OLDER;
static long rounds = 50;
static uint32_t max_len = 65536, start_psn = 0xfffff0;
static int mtu = IBV_MTU_1024, timeout_code = 18, event_mode, on_demand, implicit, persistent;
static const char *device, *path, *tcp;
static size_t slot;
static unsigned char *buf;
static struct ibv_context *ctx;
static struct ibv_comp_channel *chan;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_mw *mw[MAX_OPS];
static uint32_t keys[MAX_OPS];

static void die(const char *what)
{
	fprintf(stderr, "xfer %s: %s: %s\n", server ? "server" : "client", what, strerror(errno));
	exit(1);
}

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
	return x ^ (x >> 31);
}

static void fill(unsigned char *p, uint32_t len, uint64_t seed)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t v = mix(seed + i);
		memcpy(p + i, &v, len - i < 8 ? len - i : 8);
	}
}

static void verify(const unsigned char *p, uint32_t len, uint64_t seed, const char *what, long round, int op)
{
	for (uint32_t i = 0; i < len; i++) {
		uint64_t v = mix(seed + (i & ~7u));
		unsigned char want = ((unsigned char *)&v)[i & 7];
		if (p[i] != want) {
			fprintf(stderr, "xfer: WRONG DATA in round %ld op %d (%s): byte %u of %u is %02x, not %02x\n",
				round, op, what, i, len, p[i], want);
			exit(2);
		}
	}
}

static int is_atomic(int kind) { return kind == FETCH_ADD || kind == CMP_SWAP; }
static int wants_recv(int kind) { return kind == SEND || kind == SEND_IMM || kind == WRITE_IMM || kind == SEND_INV; }

static struct plan plan_of(long round, int op)
{
	uint64_t r = mix((uint64_t)round * 1000003 + op);
	struct plan p = { .imm = (uint32_t)mix(r), .seed = mix(r + 1) };
	do
		p.kind = (r = mix(r)) % KINDS;
	while (!(kinds_mask & (1 << p.kind)));
	/* Often tiny, often around packet borders, sometimes large. */
	switch (mix(r + 2) % 4) {
	case 0: p.len = mix(r + 3) % 65; break;
	case 1: p.len = (128u << mtu) * (mix(r + 3) % 5) + mix(r + 4) % 3 - 1; break;
	default: p.len = mix(r + 3) % (max_len + 1);
	}
	if (p.len > max_len)
		p.len = max_len;
	if (is_atomic(p.kind) || p.kind == ATOMIC_WRITE)
		p.len = 8;
	/* Whoever flushes nothing by a length of 0 flushes everything up to the end. */
	if (p.kind == FLUSH && !p.len)
		p.len = 1;
	return p;
}

static int control_open(void)
{
	int fd, one = 1, tries;
	if (path) {
		struct sockaddr_un a = { .sun_family = AF_UNIX };
		snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (!server) {
			for (tries = 0; connect(fd, (void *)&a, sizeof(a)); tries++, usleep(50000))
				if (tries == 1200)
					die("connect");
			return fd;
		}
		unlink(path);
		if (bind(fd, (void *)&a, sizeof(a)) || listen(fd, 1))
			die("bind");
	} else {
		char host[64] = "";
		int port = 0;
		sscanf(tcp, "%63[^,],%d", host, &port);
		struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };
		inet_pton(AF_INET, host, &a.sin_addr);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		if (!server) {
			for (tries = 0; connect(fd, (void *)&a, sizeof(a)); tries++, usleep(100000)) {
				if (tries == 1200)
					die("connect");
				close(fd);
				fd = socket(AF_INET, SOCK_STREAM, 0);
			}
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
			return fd;
		}
		if (bind(fd, (void *)&a, sizeof(a)) || listen(fd, 1))
			die("bind");
	}
	int c = accept(fd, NULL, NULL);
	if (c < 0)
		die("accept");
	setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return c;
}

static void swap(int fd, const void *out, void *in, size_t len)
{
	if (write(fd, out, len) != (ssize_t)len)
		die("control write");
	for (size_t got = 0; got < len;) {
		ssize_t n = read(fd, (char *)in + got, len - got);
		if (n <= 0) {
			fprintf(stderr, "xfer: the other side is gone\n");
			exit(1);
		}
		got += n;
	}
}

static void barrier(int fd)
{
	char c = 'x';
	swap(fd, &c, &c, 1);
}

/* Unmaps pages that stay in the page cache: whoever wants one has to ask for it. */
static void *thief(void *arg)
{
	size_t pages = (slot * ops * 2 + 4095) / 4096;
	uint64_t r = 1;

	(void)arg;
	for (;;) {
		size_t at = (r = mix(r)) % pages, n = 1 + mix(r + 1) % 16;
		madvise(buf + at * 4096, (at + n > pages ? pages - at : n) * 4096, MADV_DONTNEED);
		usleep(mix(r + 2) % 300);
	}
	return NULL;
}

static int wanted(int kind) { return kinds_mask >> kind & 1; }

static void setup(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!device || !strcmp(device, ibv_get_device_name(list[i])))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die("no such device");
	slot = ((size_t)max_len + 2 * GUARD + 63) & ~63ul;
	size_t bytes = (slot * ops * 2 + 4095) & ~4095ul;
	if (implicit) {
		buf = mmap(NULL, bytes + (4 << 20), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		buf += (2 << 20) - (uintptr_t)buf % (2 << 20) + (2 << 20) - bytes / 2 % (2 << 20) / 4096 * 4096;
	} else if (on_demand)
		buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	else
		buf = aligned_alloc(4096, bytes);
	pd = ibv_alloc_pd(ctx);
	if (event_mode && !(chan = ibv_create_comp_channel(ctx)))
		die("create channel");
	cq = ibv_create_cq(ctx, 4 * MAX_OPS, NULL, chan, 0);
	mr = ibv_reg_mr(pd, implicit ? NULL : buf, implicit ? SIZE_MAX : slot * ops * 2, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | (on_demand ? IBV_ACCESS_ON_DEMAND : 0) |
			(wanted(SEND_INV) ? IBV_ACCESS_MW_BIND : 0) | (wanted(FLUSH) ? IBV_ACCESS_FLUSH_GLOBAL : 0) |
			(on_demand && persistent ? IBV_ACCESS_FLUSH_PERSISTENT : 0));
	if (!pd || !cq || !mr)
		die("create pd, cq or mr");
	pthread_t thread;
	if (on_demand && pthread_create(&thread, NULL, thief, NULL))
		die("create thread");
	struct ibv_qp_init_attr_ex ia = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 2 * MAX_OPS, .max_recv_wr = MAX_OPS, .max_send_sge = 2, .max_recv_sge = 2 },
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
			IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |
			IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_FLUSH };
	if (kinds_mask & ~OLDER)
		ia.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp = ibv_create_qp_ex(ctx, &ia);
	if (!qp)
		die("create qp");
	for (int i = 0; i < ops && server && wanted(SEND_INV); i++)
		if (!(mw[i] = ibv_alloc_mw(pd, IBV_MW_TYPE_2)))
			die("alloc mw");
}

static void connect_qp(const struct peer *me, const struct peer *other)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
			(wanted(FLUSH) ? IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT : 0) };
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("to INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = other->qpn,
		.rq_psn = other->psn, .max_dest_rd_atomic = 8, .min_rnr_timer = 8,
		.ah_attr = { .is_global = 1, .port_num = 1,
			.grh = { .dgid = other->gid, .sgid_index = gid_index, .hop_limit = 64 } } };
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("to RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = timeout_code, .retry_cnt = 7, .rnr_retry = 7,
		.sq_psn = me->psn, .max_rd_atomic = 8 };
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("to RTS");
}

/* One completion. In event mode: poll, arm, poll again, sleep. */
static void completion(struct ibv_wc *wc)
{
	for (;;) {
		if (rings_changed("xfer"))
			exit(2);
		int n = ibv_poll_cq(cq, 1, wc);
		if (n < 0)
			die("poll");
		if (!n && chan) {
			struct ibv_cq *which;
			void *arg;
			if (ibv_req_notify_cq(cq, 0))
				die("req_notify");
			n = ibv_poll_cq(cq, 1, wc);
			if (!n) {
				if (ibv_get_cq_event(chan, &which, &arg))
					die("get_cq_event");
				ibv_ack_cq_events(which, 1);
				continue;
			}
		}
		if (!n)
			continue;
		if (wc->status) {
			fprintf(stderr, "xfer %s: completion %lu failed: %s (%d, vendor %#x)\n", server ? "server" : "client",
				(unsigned long)wc->wr_id, ibv_wc_status_str(wc->status), wc->status, wc->vendor_err);
			exit(1);
		}
		return;
	}
}

static unsigned char *local(int op) { return buf + slot * op + GUARD; }
static unsigned char *remote_area(int op) { return buf + slot * (ops + op) + GUARD; }

/* Opens the window of an operation, for the peer to shut it. */
static void bind_window(int op)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);
	struct ibv_mw_bind_info info = { .mr = mr, .addr = (uintptr_t)buf, .length = slot,
					 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_wc wc;

	ibv_wr_start(x);
	x->wr_id = op;
	x->wr_flags = IBV_SEND_SIGNALED;
	keys[op] = ibv_inc_rkey(mw[op]->rkey);
	ibv_wr_bind_mw(x, mw[op], keys[op], &info);
	if (ibv_wr_complete(x))
		die("bind");
	completion(&wc);
	mw[op]->rkey = keys[op];
}

static void server_round(int fd, long round)
{
	int expected = 0;
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		unsigned char *at = remote_area(i);
		memset(at - GUARD, 0xa5, slot);
		if (p.kind == READ)
			fill(at, p.len, p.seed);
		if (is_atomic(p.kind))
			fill(at, 8, p.seed);
		if (p.kind == SEND_INV)
			bind_window(i);
		if (!wants_recv(p.kind))
			continue;
		struct ibv_sge sge = { (uintptr_t)at, p.kind == WRITE_IMM ? 0 : p.len, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = sge.length ? 1 : 0 }, *bad;
		if (ibv_post_recv(qp, &wr, &bad))
			die("post_recv");
		expected++;
	}
	swap(fd, keys, (uint32_t[MAX_OPS]){ 0 }, sizeof(keys));
	while (expected--) {
		struct ibv_wc wc;
		completion(&wc);
		struct plan p = plan_of(round, wc.wr_id);
		int imm = p.kind == SEND_IMM || p.kind == WRITE_IMM;
		if (wc.byte_len != p.len || imm != !!(wc.wc_flags & IBV_WC_WITH_IMM) || (imm && wc.imm_data != p.imm)) {
			fprintf(stderr, "xfer: WRONG COMPLETION in round %ld op %lu: length %u (%u), flags %#x, imm %#x (%#x)\n",
				round, (unsigned long)wc.wr_id, wc.byte_len, p.len, wc.wc_flags, wc.imm_data, p.imm);
			exit(2);
		}
		/* The C driver has the kernel's number of the flag, which is libibverbs' for another. */
		if (!!(wc.wc_flags & (IBV_WC_WITH_INV | 1 << 2)) != (p.kind == SEND_INV) ||
		    (p.kind == SEND_INV && wc.invalidated_rkey != keys[wc.wr_id])) {
			fprintf(stderr, "xfer: WRONG INVALIDATION in round %ld op %lu: flags %#x, key %#x (%#x)\n",
				round, (unsigned long)wc.wr_id, wc.wc_flags, wc.invalidated_rkey, keys[wc.wr_id]);
			exit(2);
		}
	}
	barrier(fd);
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		unsigned char *at = remote_area(i);
		uint64_t sum = p.kind == FETCH_ADD ? mix(p.seed) + p.imm : p.imm;
		if (is_atomic(p.kind)) {
			if (memcmp(at, &sum, 8)) {
				fprintf(stderr, "xfer: WRONG ATOMIC in round %ld op %d\n", round, i);
				exit(2);
			}
		} else {
			verify(at, p.len, p.seed, "at the server", round, i);
		}
		for (size_t j = 0; j < slot; j++)
			if ((j < GUARD || j >= GUARD + p.len) && (at - GUARD)[j] != 0xa5) {
				fprintf(stderr, "xfer: WRITTEN OUTSIDE in round %ld op %d at %zd of %u\n", round, i,
					(ssize_t)j - GUARD, p.len);
				exit(2);
			}
	}
	barrier(fd);
}

/* The same requests by the interface that knows the newer operations too. */
static int post_extended(long round, struct ibv_send_wr *wr)
{
	struct ibv_qp_ex *x = ibv_qp_to_qp_ex(qp);

	ibv_wr_start(x);
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		uint32_t rkey = is_atomic(p.kind) ? wr[i].wr.atomic.rkey : wr[i].wr.rdma.rkey;
		uint64_t remote = is_atomic(p.kind) ? wr[i].wr.atomic.remote_addr : wr[i].wr.rdma.remote_addr;
		int type = persistent && p.imm & 1 ? IBV_FLUSH_PERSISTENT : IBV_FLUSH_GLOBAL;

		x->wr_id = i;
		x->wr_flags = p.kind == FLUSH ? 0 : wr[i].send_flags;
		switch (p.kind) {
		case SEND: ibv_wr_send(x); break;
		case SEND_IMM: ibv_wr_send_imm(x, p.imm); break;
		case SEND_INV: ibv_wr_send_inv(x, keys[i]); break;
		case WRITE_IMM: ibv_wr_rdma_write_imm(x, rkey, remote, p.imm); break;
		case READ: ibv_wr_rdma_read(x, rkey, remote); break;
		case FETCH_ADD: ibv_wr_atomic_fetch_add(x, rkey, remote, p.imm); break;
		case CMP_SWAP: ibv_wr_atomic_cmp_swp(x, rkey, remote, mix(p.seed), p.imm); break;
		case ATOMIC_WRITE: ibv_wr_atomic_write(x, rkey, remote, local(i)); continue;
		default: ibv_wr_rdma_write(x, rkey, remote);
		}
		/* Not a list: librxe counts the length of its first entry for each, which C believes. */
		if (p.len)
			ibv_wr_set_sge(x, mr->lkey, (uintptr_t)local(i), p.len);
		if (p.kind != FLUSH)
			continue;
		x->wr_flags = wr[i].send_flags;
		ibv_wr_flush(x, rkey, remote, p.len, type, p.imm & 2 ? IBV_FLUSH_RANGE : IBV_FLUSH_MR);
	}
	return ibv_wr_complete(x);
}

static void client_round(int fd, long round, const struct peer *other)
{
	struct ibv_send_wr wr[MAX_OPS], *bad;
	struct ibv_sge sge[MAX_OPS][2];
	memset(wr, 0, sizeof(wr));
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		uint64_t remote = other->addr + slot * (ops + i) + GUARD;
		static const enum ibv_wr_opcode codes[] = { IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
			IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
			IBV_WR_ATOMIC_CMP_AND_SWP, 0, 0, 0 };
		uint32_t first = is_atomic(p.kind) || p.len < 3 ? p.len : p.len / 3;
		memset(local(i) - GUARD, 0x5a, slot);
		if (p.kind != READ && !is_atomic(p.kind))
			fill(local(i), p.len, p.seed);
		sge[i][0] = (struct ibv_sge){ (uintptr_t)local(i), first, mr->lkey };
		sge[i][1] = (struct ibv_sge){ (uintptr_t)local(i) + first, p.len - first, mr->lkey };
		wr[i].wr_id = i;
		wr[i].opcode = codes[p.kind];
		wr[i].imm_data = p.imm;
		wr[i].sg_list = sge[i];
		wr[i].num_sge = !p.len ? 0 : first == p.len ? 1 : 2;
		wr[i].send_flags = i == ops - 1 || (p.seed & 3) == 0 ? IBV_SEND_SIGNALED : 0;
		if (is_atomic(p.kind)) {
			wr[i].wr.atomic.remote_addr = remote;
			wr[i].wr.atomic.rkey = other->rkey;
			wr[i].wr.atomic.compare_add = p.kind == CMP_SWAP ? mix(p.seed) : p.imm;
			wr[i].wr.atomic.swap = p.imm;
		} else {
			wr[i].wr.rdma.remote_addr = remote;
			wr[i].wr.rdma.rkey = other->rkey;
		}
		wr[i].next = i + 1 < ops ? &wr[i + 1] : NULL;
	}
	swap(fd, (uint32_t[MAX_OPS]){ 0 }, keys, sizeof(keys));
	if (kinds_mask & ~OLDER ? post_extended(round, wr) : ibv_post_send(qp, wr, &bad))
		die("post_send");
	struct ibv_wc wc;
	int last = -1;
	do {
		completion(&wc);
		if ((int)wc.wr_id <= last) {
			fprintf(stderr, "xfer: COMPLETION ORDER in round %ld: %lu after %d\n", round, (unsigned long)wc.wr_id, last);
			exit(2);
		}
		for (int i = last + 1; i < (int)wc.wr_id; i++)
			if (wr[i].send_flags & IBV_SEND_SIGNALED) {
				fprintf(stderr, "xfer: COMPLETION MISSING in round %ld: %d\n", round, i);
				exit(2);
			}
		last = wc.wr_id;
	} while (last != ops - 1);
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		verify(local(i), p.len, p.seed, "at the client", round, i);
	}
	barrier(fd);
	barrier(fd);
}

int main(int argc, char **argv)
{
	int c;
	while ((c = getopt(argc, argv, "d:g:c:t:sr:n:l:m:p:T:k:eOIP")) != -1)
		switch (c) {
		case 'd': device = optarg; break;
		case 'g': gid_index = atoi(optarg); break;
		case 'c': path = optarg; break;
		case 't': tcp = optarg; break;
		case 's': server = 1; break;
		case 'r': rounds = atol(optarg); break;
		case 'n': ops = atoi(optarg); break;
		case 'l': max_len = atoi(optarg); break;
		case 'm': for (mtu = 1; mtu < 5 && 128 << mtu < atoi(optarg); mtu++); break;
		case 'p': start_psn = strtoul(optarg, NULL, 0) & 0xffffff; break;
		case 'T': timeout_code = atoi(optarg); break;
		case 'k': kinds_mask = strtoul(optarg, NULL, 0); break;
		case 'e': event_mode = 1; break;
		case 'O': on_demand = 1; break;
		case 'I': on_demand = implicit = 1; break;
		case 'P': persistent = 1; break;
		default:
			fprintf(stderr, "xfer (-c SOCKET | -t HOST,PORT) [-s] [-d dev] [-g gid index] [-r rounds] [-n ops, up to 64]\n"
				"     [-l longest] [-m path mtu] [-p first psn] [-T timeout code] [-k mask of kinds] [-e events] [-O on demand] [-I all of it] [-P persistence]\n");
			return 1;
		}
	if ((!path && !tcp) || ops < 1 || ops > MAX_OPS || max_len < 8) {
		fprintf(stderr, "xfer: -c or -t is needed, -n is 1 to 64, -l at least 8\n");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	/* A peer that was killed is told as any other failure. */
	signal(SIGPIPE, SIG_IGN);
	setup();
	struct peer me = { .qpn = qp->qp_num, .psn = start_psn, .rkey = mr->rkey, .addr = (uintptr_t)buf }, other;
	if (ibv_query_gid(ctx, 1, gid_index, &me.gid))
		die("query gid");
	int fd = control_open();
	swap(fd, &me, &other, sizeof(me));
	connect_qp(&me, &other);
	rings_note();
	barrier(fd);
	for (long r = 0; r < rounds; r++) {
		if (server)
			server_round(fd, r);
		else
			client_round(fd, r, &other);
	}
	printf("xfer %s: %ld rounds of %d operations verified\n", server ? "server" : "client", rounds, ops);
	for (int i = 0; i < ops && mw[i]; i++)
		if (ibv_dealloc_mw(mw[i]))
			die("dealloc mw");
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(ctx))
		die("destroy");
	return 0;
}
