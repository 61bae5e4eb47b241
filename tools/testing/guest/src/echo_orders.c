// SPDX-License-Identifier: GPL-2.0
/*
 * A client of samples/echo by RDMA: echo_orders ADDRESS PORT WHAT. "good" exposes its data and
 * expects the complement; "one" does so with room for one RDMA READ at a time, which the service must
 * heed; "empty" sends a message of no bytes to a service without RDMA and expects it back; "noreads"
 * has no room for an RDMA READ and is rejected. After every other WHAT, the service must end the
 * connection, and must not have sent anything:
 *
 *   immediate    RDMA WRITE of no bytes with immediate data, which uses up a receive
 *   break        RDMA WRITE to memory that nobody has exposed
 *   steal        listens on PORT itself, for the client in the kernel, and writes to what that has
 *                exposed, with immediate data, by another connection
 *   others       an order that cannot be carried out
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 65536

struct order {
	uint64_t addr;
	uint32_t key;
	uint32_t len;
} __attribute__((packed));

static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;
static struct ibv_mr *mr;
static unsigned char data[SIZE];
static unsigned char message[64], answer[64];

/* Of the last event: its identifier, and the number of RDMA READs that the peer will have underway. */
static struct rdma_cm_id *of;
static int reads;

static enum rdma_cm_event_type next_event(void)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	if (rdma_get_cm_event(channel, &event))
		err(1, "rdma_get_cm_event");
	type = event->event;
	of = event->id;
	reads = event->param.conn.responder_resources;
	rdma_ack_cm_event(event);
	return type;
}

static void expect(enum rdma_cm_event_type wanted)
{
	enum rdma_cm_event_type type = next_event();

	if (type != wanted)
		errx(1, "%s, expected %s", rdma_event_str(type), rdma_event_str(wanted));
}

static struct ibv_mr *reg(void *at, size_t len, int access)
{
	struct ibv_mr *m = ibv_reg_mr(id->pd, at, len, access);

	if (!m)
		err(1, "ibv_reg_mr");
	return m;
}

static void wait_for(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc)))
		usleep(1000);
	if (n < 0 || wc->status)
		errx(1, "completion: %s", n < 0 ? "none" : ibv_wc_status_str(wc->status));
}

/* Waits until the service ends the connection. A message of the service is an error. */
static void expect_end(void)
{
	struct pollfd events = { .fd = channel->fd, .events = POLLIN };
	enum rdma_cm_event_type type;
	struct ibv_wc wc;

	while (poll(&events, 1, 1) == 0) {
		if (ibv_poll_cq(id->recv_cq, 1, &wc) == 1 && !wc.status)
			errx(1, "%u bytes have come back", wc.byte_len);
	}
	type = next_event();
	/* Rejected: the request has come before the message that establishes the connection. */
	if (of != id || (type != RDMA_CM_EVENT_DISCONNECTED && type != RDMA_CM_EVENT_REJECTED))
		errx(1, "%s, expected the end of the connection", rdma_event_str(type));
	if (ibv_poll_cq(id->recv_cq, 1, &wc) == 1 && !wc.status)
		errx(1, "%u bytes have come back", wc.byte_len);
}

/* RDMA WRITE of LEN bytes. */
static void put(size_t len, struct ibv_mr *from, enum ibv_wr_opcode opcode, uint64_t addr,
		uint32_t key)
{
	struct ibv_sge sge = { .addr = (uintptr_t)message, .length = len, .lkey = from->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = len ? 1 : 0, .opcode = opcode,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = addr, .rkey = key } }, *bad;

	if (ibv_post_send(id->qp, &wr, &bad))
		err(1, "ibv_post_send");
}

static void expect_refused(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(id->send_cq, 1, &wc)))
		usleep(1000);
	if (n < 0 || wc.status != IBV_WC_REM_ACCESS_ERR)
		errx(1, "%s, expected a refused access", n < 0 ? "none" : ibv_wc_status_str(wc.status));
}

static void post(size_t len, struct ibv_mr *from)
{
	struct ibv_sge sge = { .addr = (uintptr_t)message, .length = len, .lkey = from->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = len ? 1 : 0, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	if (ibv_post_send(id->qp, &wr, &bad))
		err(1, "ibv_post_send");
}

/* Exposes the data by a memory window, which the service may invalidate. Returns the key. */
static uint32_t expose(int access)
{
	struct ibv_mw *mw = ibv_alloc_mw(id->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	if (!mw)
		err(1, "ibv_alloc_mw");
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)data;
	wr.bind_mw.bind_info.length = SIZE;
	wr.bind_mw.bind_info.mw_access_flags = access;
	if (ibv_post_send(id->qp, &wr, &bad))
		err(1, "ibv_post_send");
	wait_for(id->send_cq, &wc);
	return wr.bind_mw.rkey;
}

static void receive(struct ibv_mr *to)
{
	struct ibv_sge sge = { .addr = (uintptr_t)answer, .length = sizeof(answer), .lkey = to->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	if (ibv_post_recv(id->qp, &wr, &bad))
		err(1, "ibv_post_recv");
}

/* Serves a client in the kernel until it has told what it exposes. */
static struct order order_of_client(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	static struct order order;
	struct rdma_cm_id *listener, *client;
	struct ibv_sge sge = { .addr = (uintptr_t)&order, .length = sizeof(order) };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_mr *to;
	struct ibv_wc wc;

	if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(listener, (struct sockaddr *)&at) || rdma_listen(listener, 4))
		err(1, "listen");
	puts("listening");
	fflush(stdout);
	expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	client = of;
	if (rdma_create_qp(client, NULL, &attr))
		err(1, "rdma_create_qp");
	to = ibv_reg_mr(client->pd, &order, sizeof(order), IBV_ACCESS_LOCAL_WRITE);
	if (!to)
		err(1, "ibv_reg_mr");
	sge.lkey = to->lkey;
	if (ibv_post_recv(client->qp, &wr, &bad) || rdma_accept(client, NULL))
		err(1, "rdma_accept");
	expect(RDMA_CM_EVENT_ESTABLISHED);
	wait_for(client->recv_cq, &wc);
	return order;
}

int main(int argc, char **argv)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_conn_param param = { .retry_count = 5, .rnr_retry_count = 5,
					 .responder_resources = 4, .initiator_depth = 4 };
	struct order order, stolen;
	struct ibv_mr *out, *in;
	struct ibv_wc wc;
	size_t len = sizeof(order);
	uint32_t key;
	bool empty, plain, good;
	int access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	if (argc != 4)
		errx(2, "usage: echo_orders ADDRESS PORT WHAT");
	const char *what = argv[3];

	alarm(40);
	empty = !strcmp(what, "empty");
	plain = empty || !strcmp(what, "immediate") || !strcmp(what, "break") ||
		!strcmp(what, "steal");
	good = !strcmp(what, "good") || !strcmp(what, "one");
	if (!strcmp(what, "one"))
		param.responder_resources = 1;
	else if (!strcmp(what, "noreads"))
		param.responder_resources = 0;
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	to.sin_port = htons(atoi(argv[2]));
	channel = rdma_create_event_channel();
	if (!channel)
		err(1, "rdma_create_event_channel");
	if (!strcmp(what, "steal"))
		stolen = order_of_client(atoi(argv[2]));
	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		err(1, "rdma_create_id");
	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000))
		err(1, "rdma_resolve_addr");
	expect(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, 2000))
		err(1, "rdma_resolve_route");
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	if (rdma_create_qp(id, NULL, &attr))
		err(1, "rdma_create_qp");
	if (!strcmp(what, "readonly"))
		access = IBV_ACCESS_REMOTE_READ;
	mr = reg(data, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	out = reg(message, sizeof(message), 0);
	in = reg(answer, sizeof(answer), IBV_ACCESS_LOCAL_WRITE);
	receive(in);
	if (!plain) {
		param.private_data = "rdma";
		param.private_data_len = 4;
	}
	if (rdma_connect(id, &param))
		err(1, "rdma_connect");
	if (!strcmp(what, "noreads")) {
		expect(RDMA_CM_EVENT_REJECTED);
		puts("ended");
		return 0;
	}
	expect(RDMA_CM_EVENT_ESTABLISHED);
	if (reads > param.responder_resources)
		errx(1, "%d RDMA READs at a time, expected no more than %d", reads,
		     param.responder_resources);
	if (plain && !empty) {
		if (!strcmp(what, "immediate"))
			put(0, out, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0);
		else if (!strcmp(what, "break"))
			put(1, out, IBV_WR_RDMA_WRITE, 0, 1);
		else
			put(16, out, IBV_WR_RDMA_WRITE_WITH_IMM, be64toh(stolen.addr),
			    be32toh(stolen.key));
		if (strcmp(what, "immediate"))
			expect_refused();
		expect_end();
		puts("ended");
		return 0;
	}

	for (size_t at = 0; at < SIZE; at++)
		data[at] = at * 7 + at / 256;
	key = expose(access);
	order = (struct order){ htobe64((uintptr_t)data), htobe32(key), htobe32(SIZE) };
	if (!strcmp(what, "key"))
		order.key ^= htobe32(1);
	else if (!strcmp(what, "address"))
		order.addr = htobe64((uintptr_t)data + 1);
	else if (!strcmp(what, "long"))
		order.len = htobe32(SIZE + 1);
	else if (!strcmp(what, "huge"))
		order.len = htobe32(UINT32_MAX);
	else if (!strcmp(what, "none"))
		order.len = 0;
	else if (!strcmp(what, "short"))
		len = sizeof(order) - 1;
	else if (empty)
		len = 0;
	else if (!good && strcmp(what, "readonly"))
		errx(2, "no such order: %s", what);
	memcpy(message, &order, sizeof(order));
	post(len, out);
	if (!good && !empty) {
		expect_end();
		/* The service has read only, or nothing. */
		for (size_t at = 0; at < SIZE; at++)
			if (data[at] != (unsigned char)(at * 7 + at / 256))
				errx(1, "byte %zu has changed", at);
		puts("ended");
		return 0;
	}
	wait_for(id->send_cq, &wc);
	wait_for(id->recv_cq, &wc);
	if (wc.byte_len != len || memcmp(answer, message, len))
		errx(1, "%u bytes have come back, or others", wc.byte_len);
	if (empty) {
		puts("came back");
		return 0;
	}
	if (!(wc.wc_flags & IBV_WC_WITH_INV) || wc.invalidated_rkey != key)
		errx(1, "the key was not invalidated: flags %x", wc.wc_flags);
	for (size_t at = 0; at < SIZE; at++)
		if (data[at] != (unsigned char)~(at * 7 + at / 256))
			errx(1, "byte %zu is not the complement", at);
	puts("came back");
	return 0;
}
