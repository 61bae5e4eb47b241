// SPDX-License-Identifier: GPL-2.0
/*
 * stuck DEVICE GID-INDEX FILE PAIRS: page faults that do not end. Maps FILE, which cannot be read
 * (stuckfs.py), registers it on demand, and connects PAIRS pairs of queue pairs of one device. Every
 * other pair writes to a page of the file by RDMA, and the others read into one; "posted" is printed
 * then. The process can change its mappings meanwhile. Waits until all requests have completed, and
 * prints "ended" and how many failed.
 */
#include "loop.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
enum { ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ };

static struct loop l;

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

static struct ibv_qp *queue_pair(void)
{
	struct ibv_qp_init_attr ia = { .send_cq = l.cq[0], .recv_cq = l.cq[0], .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(l.pd, &ia);

	if (!qp)
		loop_die("create qp");
	return qp;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	int pairs = atoi(argv[4]), failed = 0;
	size_t len = (size_t)pairs * PAGE;
	struct ibv_qp **from = calloc(pairs, sizeof(*from));
	int fd = open(argv[3], O_RDWR);

	if (fd < 0)
		loop_die(argv[3]);
	unsigned char *file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		loop_die("mmap");

	loop_open(&l, argv[1], atoi(argv[2]));
	struct ibv_mr *mr = ibv_reg_mr(l.pd, file, len, ALL | IBV_ACCESS_ON_DEMAND);
	l.cq[0] = ibv_create_cq(l.ctx, pairs, NULL, NULL, 0);
	if (!mr || !l.cq[0])
		loop_die("mr or cq");
	for (int i = 0; i < pairs; i++) {
		l.qp[0] = queue_pair();
		l.qp[1] = queue_pair();
		if (loop_to_rts(&l, 0, l.qp[1]->qp_num, ALL) || loop_to_rts(&l, 1, l.qp[0]->qp_num, ALL))
			loop_die("connect");
		from[i] = l.qp[0];
	}
	for (int i = 0; i < pairs; i++) {
		int write = i % 2;
		unsigned char *page = file + (size_t)i * PAGE;
		struct ibv_sge s = { (uintptr_t)(write ? l.buf : page), 64, write ? l.mr->lkey : mr->lkey };
		struct ibv_send_wr w = { .sg_list = &s, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
			.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ }, *b;

		w.wr.rdma.remote_addr = (uintptr_t)(write ? page : l.buf);
		w.wr.rdma.rkey = write ? mr->rkey : l.mr->rkey;
		if (ibv_post_send(from[i], &w, &b))
			loop_die("post_send");
	}
	for (int i = 0; i < 20; i++) {
		void *other = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (other == MAP_FAILED || munmap(other, PAGE))
			loop_die("other memory");
		usleep(100000);
	}
	say("posted");
	for (int done = 0; done < pairs;) {
		struct ibv_wc wc;
		int n = ibv_poll_cq(l.cq[0], 1, &wc);

		if (n < 0)
			loop_die("poll_cq");
		done += n;
		failed += n && wc.status;
		if (!n)
			usleep(1000);
	}
	printf("ended, %d failed\n", failed);
	return failed != 0;
}
