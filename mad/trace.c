// SPDX-License-Identifier: GPL-2.0
/* Tracepoints of management datagrams, defined by the kernel's own header. */
#include <rdma/ib_verbs.h>
#include <rdma/ib_smi.h>
#include <rdma/opa_smi.h>
#include "trace.h"

/* The header's names for the structures of trace.h. */
#define ib_mad_qp_info rdma_mad_qp_info
#define ib_mad_agent_private rdma_mad_agent_info
#define ib_mad_send_wr_private rdma_mad_send_info

#define CREATE_TRACE_POINTS
#include <trace/events/ib_mad.h>

#ifdef CONFIG_TRACEPOINTS
/* Declared by the header, which calls it to read the address handle. */
static void create_mad_addr_info(struct rdma_mad_send_info *wr,
				 struct rdma_mad_qp_info *qp_info,
				 struct trace_event_raw_ib_mad_send_template *entry)
{
	struct rdma_ah_attr attr = {};

	if (wr->send_wr.ah)
		rdma_query_ah(wr->send_wr.ah, &attr);
	entry->dlid = rdma_ah_get_dlid(&attr);
	entry->sl = rdma_ah_get_sl(&attr);
	entry->rqpn = wr->send_wr.remote_qpn;
	entry->rqkey = wr->send_wr.remote_qkey;
}
#endif

bool rdma_mad_traces_send(enum rdma_mad_send_event event)
{
	switch (event) {
	case RDMA_MAD_SEND:
		return trace_ib_mad_ib_send_mad_enabled();
	case RDMA_MAD_RESEND:
		return trace_ib_mad_send_done_resend_enabled();
	case RDMA_MAD_REPEAT:
		return trace_ib_mad_error_handler_enabled();
	case RDMA_MAD_SENT:
		return trace_ib_mad_send_done_handler_enabled();
	}
	return false;
}

void rdma_mad_trace_send(enum rdma_mad_send_event event,
			 struct rdma_mad_send_info *wr,
			 struct rdma_mad_qp_info *qp_info, struct ib_wc *wc)
{
	switch (event) {
	case RDMA_MAD_SEND:
		trace_ib_mad_ib_send_mad(wr, qp_info);
		break;
	case RDMA_MAD_RESEND:
		trace_ib_mad_send_done_resend(wr, qp_info);
		break;
	case RDMA_MAD_REPEAT:
		trace_ib_mad_error_handler(wr, qp_info);
		break;
	case RDMA_MAD_SENT:
		trace_ib_mad_send_done_handler(wr, wc);
		break;
	}
}

void rdma_mad_trace_received(struct rdma_mad_qp_info *qp_info, struct ib_wc *wc, void *mad)
{
	trace_ib_mad_recv_done_handler(qp_info, wc, mad);
}

void rdma_mad_trace_agent(enum rdma_mad_agent_event event,
			  struct rdma_mad_agent_info *agent)
{
	switch (event) {
	case RDMA_MAD_AGENT_CREATED:
		trace_ib_mad_create_agent(agent);
		break;
	case RDMA_MAD_AGENT_UNREGISTERED:
		trace_ib_mad_unregister_agent(agent);
		break;
	case RDMA_MAD_AGENT_RECEIVES:
		trace_ib_mad_recv_done_agent(agent);
		break;
	case RDMA_MAD_AGENT_SENT:
		trace_ib_mad_send_done_agent(agent);
		break;
	}
}

void rdma_mad_trace_smi(void *smp, bool opa, bool outgoing)
{
	if (opa && outgoing)
		trace_ib_mad_handle_out_opa_smi(smp);
	else if (opa)
		trace_ib_mad_handle_opa_smi(smp);
	else if (outgoing)
		trace_ib_mad_handle_out_ib_smi(smp);
	else
		trace_ib_mad_handle_ib_smi(smp);
}
