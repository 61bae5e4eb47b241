// SPDX-License-Identifier: GPL-2.0
/*
 * storm SECONDS SEED PROCESSES LIMIT [fail]: so many processes, each of which opens one of
 * the devices that are there, makes and unmakes objects of all kinds in no order, and then
 * closes all, or just ends, or is killed in the middle; then the next one, till the time is
 * over. Whatever is refused is refused: devices come and go meanwhile. With "fail" the
 * kernel lets their allocations fail, as /sys/kernel/debug/failslab says.
 *
 * Prints how many of each kind were made. 9, if a process did not end within LIMIT seconds
 * of being killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum kind { PD, CHANNEL, CQ, SRQ, QP, MR, MW, AH, XRCD, WQ, TABLE, FLOW, DM, MCAST, KINDS };

static const char *const names[KINDS] = { "pd", "channel", "cq", "srq", "qp", "mr", "mw", "ah",
	"xrcd", "wq", "table", "flow", "dm", "mcast" };

enum { SLOTS = 48, TURNS = 300, MEMORY = 1 << 20 };

struct object {
	enum kind kind;
	void *it;
};

struct counts {
	unsigned long made[KINDS], refused[KINDS], opened, not_opened, killed;
};

static struct counts *counts; /* shared by all processes */
static struct object objects[SLOTS];
static struct ibv_context *context;
static char *memory;

/* One of the objects of the kind, or NULL. */
static void *any(enum kind kind)
{
	int start = rand() % SLOTS;

	for (int i = 0; i < SLOTS; i++) {
		struct object *o = &objects[(start + i) % SLOTS];

		if (o->it && o->kind == kind)
			return o->it;
	}
	return NULL;
}

static struct ibv_qp *make_qp(struct ibv_pd *pd)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND };
	struct ibv_qp_init_attr init = {
		.send_cq = any(CQ), .recv_cq = any(CQ), .srq = rand() % 3 ? NULL : any(SRQ),
		.qp_type = types[rand() % 4], .sq_sig_all = rand() % 2,
		.cap = { 1 + rand() % 100, 1 + rand() % 100, 1 + rand() % 8, 1 + rand() % 8, rand() % 64 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11111111 };
	struct ibv_qp *qp = init.send_cq ? ibv_create_qp(pd, &init) : NULL;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (!qp)
		return NULL;
	ibv_modify_qp(qp, &attr, mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	if (qp->qp_type == IBV_QPT_UD) {
		attr.qp_state = IBV_QPS_RTR;
		ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	}
	return qp;
}

static struct ibv_ah *make_ah(struct ibv_pd *pd)
{
	struct ibv_ah_attr path = { .is_global = 1, .port_num = 1, .grh.sgid_index = rand() % 8 };

	if (ibv_query_gid(context, 1, path.grh.sgid_index, &path.grh.dgid))
		return NULL;
	return ibv_create_ah(pd, &path);
}

static struct ibv_wq *make_wq(struct ibv_pd *pd)
{
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = 8, .max_sge = 1, .pd = pd, .cq = any(CQ) };

	return init.cq ? ibv_create_wq(context, &init) : NULL;
}

static struct ibv_rwq_ind_table *make_table(void)
{
	struct ibv_wq *wq = any(WQ);
	struct ibv_rwq_ind_table_init_attr init = { .ind_tbl = &wq };

	return wq ? ibv_create_rwq_ind_table(context, &init) : NULL;
}

static struct ibv_flow *make_flow(void)
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_ALL_DEFAULT, .size = sizeof(attr), .port = 1 };
	struct ibv_qp *qp = any(QP);

	return qp ? ibv_create_flow(qp, &attr) : NULL;
}

/* A membership has no object of its own: the queue pair stands for it. */
static union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };

static void *make(enum kind kind)
{
	struct ibv_srq_init_attr srq = { .attr = { 1 + rand() % 200, 1 + rand() % 4, 0 } };
	struct ibv_xrcd_init_attr xrcd = { .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT };
	struct ibv_alloc_dm_attr dm = { .length = 64 };
	struct ibv_pd *pd = any(PD);
	struct ibv_qp *qp;

	if (!pd && (kind == SRQ || kind == QP || kind == MR || kind == MW || kind == AH || kind == WQ))
		return NULL;
	switch (kind) {
	case PD: return ibv_alloc_pd(context);
	case CHANNEL: return ibv_create_comp_channel(context);
	case CQ: return ibv_create_cq(context, 1 + rand() % 500, NULL, any(CHANNEL), 0);
	case SRQ: return ibv_create_srq(pd, &srq);
	case QP: return make_qp(pd);
	case MR: return ibv_reg_mr(pd, memory, 1 + rand() % MEMORY,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | (rand() % 4 ? 0 : IBV_ACCESS_ON_DEMAND));
	case MW: return ibv_alloc_mw(pd, rand() % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
	case AH: return make_ah(pd);
	case XRCD: return ibv_open_xrcd(context, &xrcd);
	case WQ: return make_wq(pd);
	case TABLE: return make_table();
	case FLOW: return make_flow();
	case DM: return ibv_alloc_dm(context, &dm);
	case MCAST:
		qp = any(QP);
		return qp && !ibv_attach_mcast(qp, &group, 0) ? qp : NULL;
	case KINDS: break;
	}
	return NULL;
}

static int unmake(struct object *o)
{
	switch (o->kind) {
	case PD: return ibv_dealloc_pd(o->it);
	case CHANNEL: return ibv_destroy_comp_channel(o->it);
	case CQ: return ibv_destroy_cq(o->it);
	case SRQ: return ibv_destroy_srq(o->it);
	case QP:
		/* The memberships of a queue pair are in the table after it. */
		for (int i = 0; i < SLOTS; i++)
			if (objects[i].kind == MCAST && objects[i].it == o->it)
				return EBUSY;
		return ibv_destroy_qp(o->it);
	case MR: return ibv_dereg_mr(o->it);
	case MW: return ibv_dealloc_mw(o->it);
	case AH: return ibv_destroy_ah(o->it);
	case XRCD: return ibv_close_xrcd(o->it);
	case WQ: return ibv_destroy_wq(o->it);
	case TABLE: return ibv_destroy_rwq_ind_table(o->it);
	case FLOW: return ibv_destroy_flow(o->it);
	case DM: return ibv_free_dm(o->it);
	case MCAST: ibv_detach_mcast(o->it, &group, 0); return 0;
	case KINDS: break;
	}
	return 0;
}

static void turn(void)
{
	struct object *o = &objects[rand() % SLOTS];
	struct ibv_port_attr port;

	if (o->it) {
		if (rand() % 3 == 0 && !unmake(o))
			o->it = NULL;
		return;
	}
	if (rand() % 16 == 0)
		ibv_query_port(context, 1, &port);
	o->kind = rand() % KINDS;
	/* A queue pair in the table once for itself and once for its group is enough. */
	o->it = o->kind == MCAST && any(MCAST) ? NULL : make(o->kind);
	__atomic_add_fetch(o->it ? &counts->made[o->kind] : &counts->refused[o->kind], 1, __ATOMIC_RELAXED);
}

/* A life: a device is opened, used, and left one way or another. */
static void live(unsigned seed, int fail)
{
	struct ibv_device **list;
	int n = 0, busy = 1;

	srand(seed);
	list = ibv_get_device_list(&n);
	context = n > 0 ? ibv_open_device(list[rand() % n]) : NULL;
	__atomic_add_fetch(context ? &counts->opened : &counts->not_opened, 1, __ATOMIC_RELAXED);
	if (!context) {
		usleep(50000);
		_exit(0);
	}
	if (fail) {
		int fd = open("/proc/self/make-it-fail", O_WRONLY);

		if (fd < 0 || write(fd, "1", 1) != 1)
			_exit(3);
		close(fd);
	}
	for (int i = 0; i < TURNS; i++)
		turn();
	if (rand() % 3 == 0)
		_exit(0);
	/* What others need goes after them: some rounds are enough, if nobody fails. */
	for (int round = 0; busy && round < 8; round++) {
		busy = 0;
		for (int i = 0; i < SLOTS; i++) {
			if (objects[i].it && unmake(&objects[i]))
				busy = 1;
			else
				objects[i].it = NULL;
		}
	}
	ibv_close_device(context);
	_exit(0);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Children one after another; 9, if one does not die. */
static int lives(double end, unsigned seed, int limit, int fail)
{
	int status = 0;

	while (now() < end) {
		double patience = 0.05 + rand_r(&seed) % 400 / 100.0, begin = now();
		pid_t child = fork();

		if (child < 0) {
			usleep(10000);
			continue;
		}
		if (!child)
			live(rand_r(&seed), fail);
		rand_r(&seed);
		while (!waitpid(child, &status, WNOHANG)) {
			if (now() - begin > patience) {
				if (patience < limit) {
					kill(child, SIGKILL);
					__atomic_add_fetch(&counts->killed, 1, __ATOMIC_RELAXED);
					begin = now();
					patience = limit;
				} else {
					fprintf(stderr, "storm: %d does not die\n", child);
					return 9;
				}
			}
			usleep(2000);
		}
		if (WIFEXITED(status) && WEXITSTATUS(status))
			return WEXITSTATUS(status);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int status, worst = 0, fail = argc > 5 && !strcmp(argv[5], "fail");
	double end;

	if (argc < 5)
		return 2;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (counts == MAP_FAILED || memory == MAP_FAILED)
		return 2;
	end = now() + atof(argv[1]);
	for (int i = 0; i < atoi(argv[3]); i++)
		if (!fork())
			_exit(lives(end, atoi(argv[2]) * 1000 + i, atoi(argv[4]), fail));
	while (wait(&status) > 0) {
		int code = WIFEXITED(status) ? WEXITSTATUS(status) : 8;

		worst = code > worst ? code : worst;
	}
	printf("opened %lu, not opened %lu, killed %lu\n", counts->opened, counts->not_opened, counts->killed);
	for (int i = 0; i < KINDS; i++)
		printf("%s %lu %lu\n", names[i], counts->made[i], counts->refused[i]);
	return worst;
}
