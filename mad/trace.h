/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Structures of agents, queue pairs and sends that trace/events/ib_mad.h reads: the fields have
 * the names that it expects; trace.c renames the structures.
 */
#ifndef RDMA_CORE_MAD_TRACE_H
#define RDMA_CORE_MAD_TRACE_H

#include <rdma/ib_mad.h>

struct rdma_mad_port_info {
	struct ib_device *device;
	int port_num;
};

struct rdma_mad_qp_info {
	struct rdma_mad_port_info *port_priv;
	struct ib_qp *qp;
};

struct rdma_mad_agent_info {
	struct ib_mad_agent agent;
	struct ib_mad_reg_req *reg_req;
	struct rdma_mad_qp_info *qp_info;
};

struct rdma_mad_send_info {
	struct rdma_mad_agent_info *mad_agent_priv;
	struct ib_mad_send_buf send_buf;
	struct ib_ud_wr send_wr;
	__be64 tid;
	unsigned long timeout;
	int max_retries;
	int retries_left;
	int retry;
};

/* Events of a send. */
enum rdma_mad_send_event {
	RDMA_MAD_SEND,
	RDMA_MAD_RESEND,
	RDMA_MAD_REPEAT,
	RDMA_MAD_SENT,
};

bool rdma_mad_traces_send(enum rdma_mad_send_event event);
void rdma_mad_trace_send(enum rdma_mad_send_event event,
			 struct rdma_mad_send_info *wr,
			 struct rdma_mad_qp_info *qp_info, struct ib_wc *wc);
void rdma_mad_trace_received(struct rdma_mad_qp_info *qp_info, struct ib_wc *wc, void *mad);

/* Events of an agent. */
enum rdma_mad_agent_event {
	RDMA_MAD_AGENT_CREATED,
	RDMA_MAD_AGENT_UNREGISTERED,
	RDMA_MAD_AGENT_RECEIVES,
	RDMA_MAD_AGENT_SENT,
};

void rdma_mad_trace_agent(enum rdma_mad_agent_event event,
			  struct rdma_mad_agent_info *agent);
void rdma_mad_trace_smi(void *smp, bool opa, bool outgoing);

#endif
