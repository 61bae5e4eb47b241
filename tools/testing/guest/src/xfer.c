// SPDX-License-Identifier: GPL-2.0
/*
 * xfer: moves data over an RC queue pair and checks every byte of it.
 *
 * Two processes, one of them the server (-s), meet on a UNIX socket (-c PATH; it
 * crosses net namespaces) or over TCP (-t HOST:PORT). In each round the client
 * posts a seeded mix of operations at once: SEND, SEND with immediate, RDMA WRITE,
 * RDMA WRITE with immediate, RDMA READ, FETCH AND ADD, COMPARE AND SWAP. Both sides
 * derive the mix from the round's number, so each can check what it received, and
 * that nothing outside was touched. With -O the memory is registered on demand, and a
 * thread takes pages away all the time. Exit 0: all rounds were right; 1: a verbs call
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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { SEND, SEND_IMM, WRITE, WRITE_IMM, READ, FETCH_ADD, CMP_SWAP, KINDS };
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

static int server, gid_index, ops = 16, kinds_mask = (1 << KINDS) - 1;
static long rounds = 50;
static uint32_t max_len = 65536, start_psn = 0xfffff0;
static int mtu = IBV_MTU_1024, timeout_code = 14, event_mode, on_demand;
static const char *device, *path, *tcp;
static size_t slot;
static unsigned char *buf;
static struct ibv_context *ctx;
static struct ibv_comp_channel *chan;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;

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
	if (p.kind == FETCH_ADD || p.kind == CMP_SWAP)
		p.len = 8;
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
				if (tries == 400)
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
				if (tries == 400)
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

static void setup(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i]; i++)
		if (!device || !strcmp(device, ibv_get_device_name(list[i])))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		die("no such device");
	slot = ((size_t)max_len + 2 * GUARD + 63) & ~63ul;
	if (on_demand)
		buf = mmap(NULL, (slot * ops * 2 + 4095) & ~4095ul, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	else
		buf = aligned_alloc(4096, (slot * ops * 2 + 4095) & ~4095ul);
	pd = ibv_alloc_pd(ctx);
	if (event_mode && !(chan = ibv_create_comp_channel(ctx)))
		die("create channel");
	cq = ibv_create_cq(ctx, 4 * MAX_OPS, NULL, chan, 0);
	mr = ibv_reg_mr(pd, buf, slot * ops * 2, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));
	if (!pd || !cq || !mr)
		die("create pd, cq or mr");
	pthread_t thread;
	if (on_demand && pthread_create(&thread, NULL, thief, NULL))
		die("create thread");
	struct ibv_qp_init_attr ia = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = MAX_OPS, .max_recv_wr = MAX_OPS, .max_send_sge = 2, .max_recv_sge = 2 } };
	qp = ibv_create_qp(pd, &ia);
	if (!qp)
		die("create qp");
}

static void connect_qp(const struct peer *me, const struct peer *other)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };
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

static void server_round(int fd, long round)
{
	int expected = 0;
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		unsigned char *at = remote_area(i);
		memset(at - GUARD, 0xa5, slot);
		if (p.kind == READ)
			fill(at, p.len, p.seed);
		if (p.kind == FETCH_ADD || p.kind == CMP_SWAP)
			fill(at, 8, p.seed);
		if (p.kind > WRITE_IMM || p.kind == WRITE)
			continue;
		struct ibv_sge sge = { (uintptr_t)at, p.kind == WRITE_IMM ? 0 : p.len, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = sge.length ? 1 : 0 }, *bad;
		if (ibv_post_recv(qp, &wr, &bad))
			die("post_recv");
		expected++;
	}
	barrier(fd);
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
	}
	barrier(fd);
	for (int i = 0; i < ops; i++) {
		struct plan p = plan_of(round, i);
		unsigned char *at = remote_area(i);
		uint64_t sum = p.kind == FETCH_ADD ? mix(p.seed) + p.imm : p.imm;
		if (p.kind == FETCH_ADD || p.kind == CMP_SWAP) {
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
			IBV_WR_ATOMIC_CMP_AND_SWP };
		uint32_t first = p.kind >= FETCH_ADD || p.len < 3 ? p.len : p.len / 3;
		memset(local(i) - GUARD, 0x5a, slot);
		if (p.kind <= WRITE_IMM)
			fill(local(i), p.len, p.seed);
		sge[i][0] = (struct ibv_sge){ (uintptr_t)local(i), first, mr->lkey };
		sge[i][1] = (struct ibv_sge){ (uintptr_t)local(i) + first, p.len - first, mr->lkey };
		wr[i].wr_id = i;
		wr[i].opcode = codes[p.kind];
		wr[i].imm_data = p.imm;
		wr[i].sg_list = sge[i];
		wr[i].num_sge = !p.len ? 0 : first == p.len ? 1 : 2;
		wr[i].send_flags = i == ops - 1 || (p.seed & 3) == 0 ? IBV_SEND_SIGNALED : 0;
		if (p.kind >= FETCH_ADD) {
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
	barrier(fd);
	if (ibv_post_send(qp, wr, &bad))
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
	while ((c = getopt(argc, argv, "d:g:c:t:sr:n:l:m:p:T:k:eO")) != -1)
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
		default:
			fprintf(stderr, "xfer (-c SOCKET | -t HOST,PORT) [-s] [-d dev] [-g gid index] [-r rounds] [-n ops, up to 64]\n"
				"     [-l longest] [-m path mtu] [-p first psn] [-T timeout code] [-k mask of kinds] [-e events]\n");
			return 1;
		}
	if ((!path && !tcp) || ops < 1 || ops > MAX_OPS || max_len < 8) {
		fprintf(stderr, "xfer: -c or -t is needed, -n is 1 to 64, -l at least 8\n");
		return 1;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setup();
	struct peer me = { .qpn = qp->qp_num, .psn = start_psn, .rkey = mr->rkey, .addr = (uintptr_t)buf }, other;
	if (ibv_query_gid(ctx, 1, gid_index, &me.gid))
		die("query gid");
	int fd = control_open();
	swap(fd, &me, &other, sizeof(me));
	connect_qp(&me, &other);
	barrier(fd);
	for (long r = 0; r < rounds; r++) {
		if (server)
			server_round(fd, r);
		else
			client_round(fd, r, &other);
	}
	printf("xfer %s: %ld rounds of %d operations verified\n", server ? "server" : "client", rounds, ops);
	if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr) || ibv_dealloc_pd(pd) || ibv_close_device(ctx))
		die("destroy");
	return 0;
}
