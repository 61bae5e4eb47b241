// SPDX-License-Identifier: GPL-2.0
/* Helpers for clients: capabilities of ports, netlink information, address handles for MADs. */
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>
#include "core_priv.h"
#include <net/netlink.h>
#include <rdma/rdma_netlink.h>
#include "helpers.h"

bool rdma_helper_cap_ib_mad(struct ib_device *dev, u32 port)
{
	return rdma_is_port_valid(dev, port) && rdma_cap_ib_mad(dev, port);
}

bool rdma_helper_cap_ib_smi(struct ib_device *dev, u32 port)
{
	return rdma_is_port_valid(dev, port) && rdma_cap_ib_smi(dev, port);
}

u32 rdma_helper_nl_info_port(const struct ib_client_nl_info *info)
{
	return info->port;
}

void rdma_helper_nl_info_set(struct ib_client_nl_info *info, u64 abi, struct device *cdev)
{
	info->abi = abi;
	info->cdev = cdev;
}

int rdma_helper_nl_info_driver(struct ib_client_nl_info *info, u32 driver)
{
	return nla_put_u32(info->nl_msg, RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID, driver);
}

struct ib_ah *rdma_helper_mad_ah(struct ib_mad_agent *agent, u16 dlid, u8 sl, u8 path_bits,
				 const struct rdma_helper_grh *grh)
{
	struct rdma_ah_attr attr = {
		.type = rdma_ah_find_type(agent->device, agent->port_num),
	};

	rdma_ah_set_dlid(&attr, dlid);
	rdma_ah_set_sl(&attr, sl);
	rdma_ah_set_path_bits(&attr, path_bits);
	rdma_ah_set_port_num(&attr, agent->port_num);
	if (grh) {
		rdma_ah_set_grh(&attr, NULL, grh->flow_label, grh->gid_index,
				grh->hop_limit, grh->traffic_class);
		rdma_ah_set_dgid_raw(&attr, (void *)grh->dgid);
	}
	return rdma_create_user_ah(agent->qp->pd, &attr, NULL);
}

void rdma_helper_mad_ah_destroy(struct ib_ah *ah)
{
	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
}

int rdma_helper_mad_recv_grh(struct ib_mad_agent *agent, struct ib_mad_recv_wc *wc,
			     struct rdma_helper_grh *grh)
{
	const struct ib_global_route *from;
	struct rdma_ah_attr attr;
	int ret;

	ret = ib_init_ah_attr_from_wc(agent->device, agent->port_num, wc->wc,
				      wc->recv_buf.grh, &attr);
	if (ret)
		return ret;
	from = rdma_ah_read_grh(&attr);
	grh->flow_label = from->flow_label;
	grh->gid_index = from->sgid_index;
	grh->hop_limit = from->hop_limit;
	grh->traffic_class = from->traffic_class;
	memcpy(grh->dgid, from->dgid.raw, sizeof(grh->dgid));
	rdma_destroy_ah_attr(&attr);
	return 0;
}
