// SPDX-License-Identifier: GPL-2.0
/*
 * Connections without queue pairs: how long each takes, while others are held and messages are lost.
 *
 *	connects -s ADDRESS PORT			accepts all, until it is killed
 *	connects ADDRESS PORT SOURCE COUNT [HELD]	connects
 *
 * First makes HELD connections and keeps them. Then makes COUNT connections, all at once, and prints
 *
 *	COUNT connections, FAILED failed, MEAN us each
 *	p50 US p99 US max US
 *
 * The mean is the time for all, from the creation of the first ID to the last answer, divided by their
 * number. The others are the times from rdma_connect() of a connection to the peer's answer.
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rdma/rdma_cma.h>

enum { PATIENCE_MS = 3000, AT_ONCE = 100 };

struct connection {
	struct rdma_cm_id *id;
	uint64_t begun, took;
	bool over;
};

static struct rdma_event_channel *channel;
/* Queue pairs that do not exist: a number of its own for each connection. */
static uint32_t next_qpn;
static struct sockaddr_in from, to;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}

static struct rdma_conn_param param(void)
{
	struct rdma_conn_param p = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.qp_num = 0x1000 + next_qpn++ % 0xf00000,
	};

	return p;
}

static struct sockaddr_in address(const char *text, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(atoi(port)) };

	if (inet_pton(AF_INET, text, &a.sin_addr) != 1) {
		fprintf(stderr, "%s is no address\n", text);
		exit(1);
	}
	return a;
}

static void serve(void)
{
	struct rdma_cm_event *event;
	struct rdma_conn_param p;
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) || rdma_bind_addr(id, (struct sockaddr *)&from) ||
	    rdma_listen(id, 1024))
		die("listen");
	while (!rdma_get_cm_event(channel, &event)) {
		enum rdma_cm_event_type type = event->event;

		id = event->id;
		rdma_ack_cm_event(event);
		switch (type) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			p = param();
			if (rdma_accept(id, &p))
				rdma_destroy_id(id);
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
		case RDMA_CM_EVENT_TIMEWAIT_EXIT:
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_disconnect(id);
			rdma_destroy_id(id);
			break;
		default:
			rdma_destroy_id(id);
		}
	}
	die("rdma_get_cm_event");
}

static void begin(struct connection *c)
{
	if (rdma_create_id(channel, &c->id, c, RDMA_PS_TCP) ||
	    rdma_resolve_addr(c->id, (struct sockaddr *)&from, (struct sockaddr *)&to, PATIENCE_MS))
		die("rdma_resolve_addr");
}

/* Handles one event. Returns how many connections are over by it, and counts those that failed. */
static int step(int *failed)
{
	struct rdma_cm_event *event;
	struct rdma_conn_param p;
	enum rdma_cm_event_type type;
	struct connection *c;
	int status = 0;

	if (rdma_get_cm_event(channel, &event))
		die("rdma_get_cm_event");
	type = event->event;
	c = event->id->context;
	rdma_ack_cm_event(event);
	switch (type) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		status = rdma_resolve_route(c->id, PATIENCE_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		p = param();
		c->begun = now();
		status = rdma_connect(c->id, &p);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		c->took = now() - c->begun;
		status = rdma_establish(c->id);
		if (status || c->over)
			break;
		c->over = true;
		return 1;
	default:
		status = -1;
	}
	if (!status || c->over)
		return 0;
	c->took = now() - c->begun;
	c->over = true;
	++*failed;
	return 1;
}

/* Makes connections, so many at once. Returns how many failed. */
static int connect_all(struct connection *all, int count, int at_once)
{
	int begun = 0, over = 0, failed = 0;

	while (over < count) {
		while (begun < count && begun - over < at_once)
			begin(&all[begun++]);
		over += step(&failed);
	}
	return failed;
}

static int by_time(const void *a, const void *b)
{
	const struct connection *x = a, *y = b;

	return (x->took > y->took) - (x->took < y->took);
}

int main(int argc, char **argv)
{
	struct connection *all, *held;
	int count, keep, failed;
	uint64_t start;

	setvbuf(stdout, NULL, _IOLBF, 0);
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	if (argc == 4 && !strcmp(argv[1], "-s")) {
		from = address(argv[2], argv[3]);
		serve();
	}
	if (argc != 5 && argc != 6) {
		fprintf(stderr, "usage: connects -s ADDRESS PORT | connects ADDRESS PORT SOURCE COUNT [HELD]\n");
		return 2;
	}
	to = address(argv[1], argv[2]);
	from = address(argv[3], "0");
	count = atoi(argv[4]);
	keep = argc == 6 ? atoi(argv[5]) : 0;
	all = calloc(count, sizeof(*all));
	held = calloc(keep + 1, sizeof(*held));
	if (count < 1 || !all || !held)
		die("calloc");
	failed = connect_all(held, keep, AT_ONCE);
	if (failed) {
		fprintf(stderr, "%d of %d that are to be held failed\n", failed, keep);
		return 1;
	}
	start = now();
	failed = connect_all(all, count, count);
	start = now() - start;
	qsort(all, count, sizeof(*all), by_time);
	printf("%d connections, %d failed, %.2f us each\n", count, failed, (double)start / count);
	printf("p50 %llu p99 %llu max %llu\n", (unsigned long long)all[count / 2].took,
	       (unsigned long long)all[count * 99 / 100].took, (unsigned long long)all[count - 1].took);
	/* The kernel ends all that is left. */
	return 0;
}
