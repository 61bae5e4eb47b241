// SPDX-License-Identifier: GPL-2.0
/* Helpers for ib_cm: capabilities of ports, files in the directories of ports. */
#include <rdma/ib_verbs.h>
#include "core_priv.h"
#include "helpers.h"

bool rdma_helper_cap_ib_cm(struct ib_device *dev, u32 port)
{
	return rdma_is_port_valid(dev, port) && rdma_cap_ib_cm(dev, port);
}

bool rdma_helper_cap_opa_ah(struct ib_device *dev, u32 port)
{
	return rdma_is_port_valid(dev, port) && rdma_cap_opa_ah(dev, port);
}

int rdma_helper_port_groups_add(struct ib_device *dev, u32 port,
				const struct attribute_group **groups)
{
	return ib_port_register_client_groups(dev, port, groups);
}

void rdma_helper_port_groups_remove(struct ib_device *dev, u32 port,
				    const struct attribute_group **groups)
{
	ib_port_unregister_client_groups(dev, port, groups);
}
