// SPDX-License-Identifier: GPL-2.0
/*
 * stuck DEVICE GID-INDEX FILE PAIRS [leave]: page faults that do not end. Maps FILE, which cannot be
 * read (stuckfs.py), registers it on demand, and connects PAIRS pairs of queue pairs of one device.
 * Every other pair writes to a page of the file by RDMA, and the others read into one; "posted" is
 * printed then. The process can change its mappings meanwhile. Waits until all requests have
 * completed, and prints "ended" and how many failed. With "leave", all pairs write, and those that
 * are written to fail, are reset or are destroyed then: all requests must fail.
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

static struct ibv_comp_channel *channel;

static struct ibv_qp *queue_pair(void)
{
	struct ibv_qp_init_attr ia = { .send_cq = l.cq[0], .recv_cq = l.cq[0], .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(l.pd, &ia);

	if (!qp)
		loop_die("create qp");
	return qp;
}

/* Waits for a completion without polling, and returns its status. */
static int completion(void)
{
	for (int armed = 0;; armed = !armed) {
		struct ibv_cq *cq;
		struct ibv_wc wc;
		void *context;
		int n = ibv_poll_cq(l.cq[0], 1, &wc);

		if (n < 0)
			loop_die("poll_cq");
		if (n)
			return wc.status;
		if (!armed && ibv_req_notify_cq(l.cq[0], 0))
			loop_die("req_notify_cq");
		if (armed) {
			if (ibv_get_cq_event(channel, &cq, &context))
				loop_die("get_cq_event");
			ibv_ack_cq_events(cq, 1);
		}
	}
}

/* Ends the reception of queue pairs, in each of the ways that there are. */
static void leave(struct ibv_qp **to, int pairs)
{
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR }, reset = { .qp_state = IBV_QPS_RESET };

	for (int i = 0; i < pairs; i++) {
		int wrong = i % 3 == 0 ? ibv_modify_qp(to[i], &error, IBV_QP_STATE) :
			i % 3 == 1 ? ibv_modify_qp(to[i], &reset, IBV_QP_STATE) : ibv_destroy_qp(to[i]);

		if (wrong)
			loop_die("leave");
	}
}

int main(int argc, char **argv)
{
	if (argc != 5 && (argc != 6 || strcmp(argv[5], "leave")))
		return 2;
	int pairs = atoi(argv[4]), leaves = argc == 6, failed = 0;
	size_t len = (size_t)pairs * PAGE;
	struct ibv_qp **from = calloc(pairs, sizeof(*from)), **to = calloc(pairs, sizeof(*to));
	int fd = open(argv[3], O_RDWR);

	if (fd < 0)
		loop_die(argv[3]);
	unsigned char *file = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		loop_die("mmap");

	loop_open(&l, argv[1], atoi(argv[2]));
	struct ibv_mr *mr = ibv_reg_mr(l.pd, file, len, ALL | IBV_ACCESS_ON_DEMAND);
	channel = ibv_create_comp_channel(l.ctx);
	l.cq[0] = ibv_create_cq(l.ctx, pairs, NULL, channel, 0);
	if (!mr || !channel || !l.cq[0])
		loop_die("mr or cq");
	for (int i = 0; i < pairs; i++) {
		l.qp[0] = queue_pair();
		l.qp[1] = queue_pair();
		if (loop_to_rts(&l, 0, l.qp[1]->qp_num, ALL) || loop_to_rts(&l, 1, l.qp[0]->qp_num, ALL))
			loop_die("connect");
		from[i] = l.qp[0];
		to[i] = l.qp[1];
	}
	for (int i = 0; i < pairs; i++) {
		int write = leaves || i % 2;
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
	if (leaves)
		leave(to, pairs);
	for (int i = 0; i < pairs; i++)
		failed += completion() != IBV_WC_SUCCESS;
	printf("ended, %d failed\n", failed);
	return failed != (leaves ? pairs : 0);
}
