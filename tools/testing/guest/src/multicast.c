// SPDX-License-Identifier: GPL-2.0
/*
 * multicast CASE DEVICE GID-INDEX DEVICE GID-INDEX: multicast groups by the plain
 * verbs, on two devices of one wire. Cases:
 *   attach   what attaching and detaching refuse, and how many a group takes
 *   lids     one queue pair in one group with several LIDs
 *   groups   many groups of both families
 *   v4, v6   who hears what is sent, and who does not
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { QKEY = 0x11111111, ROOM = 256, GRH = 40, TEXT = 64, RECVS = 8, GROUP_SIZE = 56, GROUPS = 300 };

#define CHECK(x)                                                                                     \
	do {                                                                                         \
		if (!(x)) {                                                                          \
			printf("line %d: %s: %s\n", __LINE__, #x, strerror(errno));                  \
			exit(1);                                                                     \
		}                                                                                    \
	} while (0)

struct node {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	int gid_index;
};

struct member {
	struct node *node;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[RECVS][ROOM], out[TEXT];
};

static struct node open_node(const char *name, const char *gid_index)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct node n = { .gid_index = atoi(gid_index) };

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(name, ibv_get_device_name(list[i])))
			n.ctx = ibv_open_device(list[i]);
	CHECK(n.ctx);
	CHECK((n.pd = ibv_alloc_pd(n.ctx)));
	return n;
}

static union ibv_gid gid(const char *text)
{
	union ibv_gid g = {};

	if (inet_pton(AF_INET6, text, g.raw) == 1)
		return g;
	CHECK(inet_pton(AF_INET, text, g.raw + 12) == 1);
	g.raw[10] = g.raw[11] = 0xff;
	return g;
}

static void post_recv(struct member *m, int i)
{
	struct ibv_sge sge = { (uintptr_t)m->buf[i], ROOM, m->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(m->qp, &wr, &bad));
}

static struct member *member(struct node *n, enum ibv_qp_type type, uint32_t qkey)
{
	struct member *m = calloc(1, sizeof(*m));
	struct ibv_qp_init_attr init = { .qp_type = type,
		.cap = { .max_send_wr = 4, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1 } };

	m->node = n;
	CHECK((m->cq = ibv_create_cq(n->ctx, 2 * RECVS, NULL, NULL, 0)));
	init.send_cq = init.recv_cq = m->cq;
	CHECK((m->qp = ibv_create_qp(n->pd, &init)));
	CHECK((m->mr = ibv_reg_mr(n->pd, m, sizeof(*m), IBV_ACCESS_LOCAL_WRITE)));
	if (type != IBV_QPT_UD)
		return m;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey };

	CHECK(!ibv_modify_qp(m->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(m->qp, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(m->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	for (int i = 0; i < RECVS; i++)
		post_recv(m, i);
	return m;
}

static int attach(struct member *m, const char *group)
{
	union ibv_gid g = gid(group);

	return ibv_attach_mcast(m->qp, &g, 0);
}

static int detach(struct member *m, const char *group)
{
	union ibv_gid g = gid(group);

	return ibv_detach_mcast(m->qp, &g, 0);
}

/* The next completion, or 0 after so long. */
static int next(struct member *m, struct ibv_wc *wc, long ms)
{
	struct timespec nap = { .tv_nsec = 1000000 };

	for (; ms > 0; ms--) {
		int n = ibv_poll_cq(m->cq, 1, wc);

		CHECK(n >= 0);
		if (n) {
			CHECK(wc->status == IBV_WC_SUCCESS);
			return 1;
		}
		nanosleep(&nap, NULL);
	}
	return 0;
}

static void say(struct member *m, const char *group, int count)
{
	struct ibv_ah_attr to = { .is_global = 1, .port_num = 1,
		.grh = { .dgid = gid(group), .sgid_index = m->node->gid_index, .hop_limit = 4 } };
	struct ibv_sge sge = { (uintptr_t)m->out, TEXT, m->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;

	CHECK((wr.wr.ud.ah = ibv_create_ah(m->node->pd, &to)));
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	memset(m->out, count, TEXT);
	CHECK(!ibv_post_send(m->qp, &wr, &bad));
	CHECK(next(m, &wc, 30000) && wc.opcode == IBV_WC_SEND);
	CHECK(!ibv_destroy_ah(wr.wr.ud.ah));
}

static void hears(struct member *m, struct member *from, int count)
{
	struct ibv_wc wc;

	CHECK(next(m, &wc, 30000));
	CHECK(wc.opcode == IBV_WC_RECV && wc.byte_len == GRH + TEXT && wc.src_qp == from->qp->qp_num);
	CHECK((wc.wc_flags & IBV_WC_GRH) && m->buf[wc.wr_id][GRH] == count && m->buf[wc.wr_id][GRH + TEXT - 1] == count);
	post_recv(m, wc.wr_id);
}

static void silent(struct member *m)
{
	struct ibv_wc wc;

	CHECK(!next(m, &wc, 100));
}

static void who_hears(struct node *one, struct node *two, const char *group, const char *other)
{
	/* In the group: the first six. */
	struct member *all[] = { member(one, IBV_QPT_UD, QKEY), member(one, IBV_QPT_UD, QKEY),
		member(two, IBV_QPT_UD, QKEY), member(two, IBV_QPT_UD, QKEY), member(two, IBV_QPT_UD, QKEY),
		member(two, IBV_QPT_UD, 7), member(two, IBV_QPT_UD, QKEY) };

	for (int i = 0; i < 6; i++)
		CHECK(!attach(all[i], group));
	CHECK(!attach(all[6], other));
	for (int from = 0; from < 5; from += 3) {
		for (int count = 1; count < 4; count++) {
			say(all[from], group, count);
			for (int i = 0; i < 5; i++)
				if (i != from)
					hears(all[i], all[from], count);
		}
		silent(all[from]);
		silent(all[5]);
		silent(all[6]);
	}
	/* One that has left hears nothing, and no longer than the others do. */
	CHECK(!detach(all[2], group));
	say(all[0], group, 4);
	hears(all[1], all[0], 4);
	hears(all[3], all[0], 4);
	hears(all[4], all[0], 4);
	silent(all[2]);
	for (int i = 3; i < 6; i++)
		CHECK(!detach(all[i], group));
	say(all[0], group, 5);
	hears(all[1], all[0], 5);
	silent(all[3]);
	CHECK(!detach(all[1], group) && !detach(all[0], group) && !detach(all[6], other));
	for (int i = 0; i < 7; i++)
		CHECK(!ibv_destroy_qp(all[i]->qp));
}

static void refusals(struct node *n)
{
	struct member *m = member(n, IBV_QPT_UD, QKEY), *rc = member(n, IBV_QPT_RC, 0), *many[GROUP_SIZE];
	struct ibv_device_attr attr;

	CHECK(!ibv_query_device(n->ctx, &attr));
	CHECK(attr.max_mcast_grp == 8192 && attr.max_mcast_qp_attach == GROUP_SIZE && attr.max_total_mcast_qp_attach == 0x70000);
	CHECK(attach(m, "10.0.1.2") == EINVAL);
	CHECK(attach(rc, "239.1.1.1") == EINVAL);
	CHECK(detach(m, "239.1.1.1") == EINVAL);
	CHECK(!attach(m, "239.1.1.1") && !attach(m, "239.1.1.1"));
	CHECK(detach(m, "239.1.1.2") == EINVAL);
	CHECK(ibv_destroy_qp(m->qp) == EBUSY);
	CHECK(!detach(m, "239.1.1.1"));
	CHECK(detach(m, "239.1.1.1") == EINVAL);
	for (int i = 0; i < GROUP_SIZE; i++) {
		many[i] = member(n, IBV_QPT_UD, QKEY);
		CHECK(!attach(many[i], "239.1.1.1"));
	}
	CHECK(attach(m, "239.1.1.1") == ENOMEM);
	CHECK(!detach(many[7], "239.1.1.1") && !attach(m, "239.1.1.1"));
	/* What is attached when its process ends goes with it. */
}

/* An attachment is a pair of GID and LID. A queue pair is in use until all of its own are gone. */
static void lids(struct node *one, struct node *two)
{
	struct member *from = member(one, IBV_QPT_UD, QKEY), *m = member(two, IBV_QPT_UD, QKEY);
	union ibv_gid g = gid("239.1.1.3");

	for (int lid = 0; lid < 3; lid++)
		CHECK(!ibv_attach_mcast(m->qp, &g, lid));
	CHECK(!ibv_detach_mcast(m->qp, &g, 1) && !ibv_detach_mcast(m->qp, &g, 0));
	CHECK(ibv_detach_mcast(m->qp, &g, 0) == EINVAL);
	say(from, "239.1.1.3", 1);
	hears(m, from, 1);
	silent(m);
	CHECK(ibv_destroy_qp(m->qp) == EBUSY);
	CHECK(!ibv_detach_mcast(m->qp, &g, 2));
	say(from, "239.1.1.3", 2);
	silent(m);
	CHECK(!ibv_destroy_qp(m->qp));
}

static void many_groups(struct node *one, struct node *two)
{
	struct member *from = member(one, IBV_QPT_UD, QKEY), *to = member(two, IBV_QPT_UD, QKEY);
	char name[64];

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < GROUPS; i++) {
			snprintf(name, sizeof(name), "239.2.%d.%d", i / 200, i % 200);
			CHECK(!(pass ? detach : attach)(to, name));
			snprintf(name, sizeof(name), "ff0e::2:%x", i);
			CHECK(!(pass ? detach : attach)(to, name));
		}
		if (!pass) {
			say(from, "239.2.0.7", 1);
			hears(to, from, 1);
			say(from, "239.2.1.99", 2);
			hears(to, from, 2);
		}
	}
}

int main(int argc, char **argv)
{
	struct node one, two;

	if (argc != 6)
		return 2;
	one = open_node(argv[2], argv[3]);
	two = open_node(argv[4], argv[5]);
	if (!strcmp(argv[1], "attach"))
		refusals(&two);
	else if (!strcmp(argv[1], "lids"))
		lids(&one, &two);
	else if (!strcmp(argv[1], "groups"))
		many_groups(&one, &two);
	else if (!strcmp(argv[1], "v4"))
		who_hears(&one, &two, "239.3.3.3", "239.3.3.4");
	else
		who_hears(&one, &two, "ff0e::3:3", "ff0e::3:4");
	return 0;
}
