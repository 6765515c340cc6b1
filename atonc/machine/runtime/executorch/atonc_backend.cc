/* SPDX-License-Identifier: Apache-2.0
 * The ExecuTorch backend "AtonBackend": a delegate's data hold a relocatable image, which the port installs and runs.
 * Link this file and one port with --whole-archive, or as objects: the backend registers itself before main.
 */
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>
#include <executorch/runtime/platform/log.h>

#include "atonc_port.h"

namespace atonc {
namespace {

namespace et = executorch::runtime;

constexpr size_t kMostOperands = 64;

/* A tensor as its bytes, in the order of its axes: the network knows no other order. */
bool Flat(et::EValue *value, Operand *operand) {
    if (value == nullptr || !value->isTensor())
        return false;
    const executorch::aten::Tensor &tensor = value->toTensor();
    const auto order = tensor.dim_order();
    if (!et::is_contiguous_dim_order(order.data(), order.size()))
        return false;
    *operand = {tensor.mutable_data_ptr(), tensor.nbytes()};
    return operand->data != nullptr || operand->bytes == 0;
}

class AtonBackend final : public et::BackendInterface {
  public:
    bool is_available() const override { return true; }

    et::Result<et::DelegateHandle *> init(et::BackendInitContext &context, et::FreeableBuffer *processed,
                                          et::ArrayRef<et::CompileSpec>) const override {
        Reason why = {"no reason was given"};
        void *network = Install(context.get_runtime_allocator(), processed->data(), processed->size(), &why);
        if (network == nullptr) {
            ET_LOG(Error, "AtonBackend: %s", why.text);
            return et::Error::DelegateInvalidCompatibility;
        }
        return network; /* its data stay: programs and weights are run from there */
    }

    et::Error execute(et::BackendExecutionContext &, et::DelegateHandle *network,
                      et::Span<et::EValue *> values) const override {
        Operand operands[kMostOperands];
        if (values.size() > kMostOperands) {
            ET_LOG(Error, "AtonBackend: %zu operands, at most %zu", values.size(), kMostOperands);
            return et::Error::InvalidArgument;
        }
        for (size_t k = 0; k < values.size(); k++) {
            if (!Flat(values[k], &operands[k])) {
                ET_LOG(Error, "AtonBackend: operand %zu is no tensor with its axes in order", k);
                return et::Error::InvalidArgument;
            }
        }
        Reason why = {"no reason was given"};
        if (Run(network, operands, values.size(), &why))
            return et::Error::Ok;
        ET_LOG(Error, "AtonBackend: %s", why.text);
        return et::Error::DelegateInvalidHandle;
    }

    void destroy(et::DelegateHandle *network) const override { Remove(network); }
};

AtonBackend backend;
const et::Error registered = et::register_backend({"AtonBackend", &backend});

} // namespace
} // namespace atonc
