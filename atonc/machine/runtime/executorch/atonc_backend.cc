/* SPDX-License-Identifier: Apache-2.0
 * The ExecuTorch backend "AtonBackend": a delegate's data hold a relocatable image, which the port installs and runs.
 * Link this file and one port as objects, or with --whole-archive: the backend registers itself before main.
 */
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/dim_order_util.h>

#include "atonc_port.h"

namespace atonc {
namespace {

namespace et = executorch::runtime;

constexpr size_t kMostOperands = 64;

/* A tensor as its bytes, with its axes in order: the network knows no other. */
bool Flat(et::EValue *value, Operand *operand) {
    if (value == nullptr || !value->isTensor())
        return false;
    const executorch::aten::Tensor &tensor = value->toTensor();
    const auto order = tensor.dim_order();
    if (!et::is_contiguous_dim_order(order.data(), order.size()))
        return false;
    *operand = {tensor.mutable_data_ptr(), tensor.nbytes()};
    return operand->data != nullptr;
}

class AtonBackend final : public et::BackendInterface {
  public:
    bool is_available() const override { return true; }

    et::Result<et::DelegateHandle *> init(et::BackendInitContext &context, et::FreeableBuffer *processed,
                                          et::ArrayRef<et::CompileSpec>) const override {
        void *network = port::Install(context.get_runtime_allocator(), processed->data(), processed->size());
        if (network == nullptr)
            return et::Error::DelegateInvalidCompatibility;
        return network; /* its data stay: programs and weights are run from there */
    }

    et::Error execute(et::BackendExecutionContext &context, et::DelegateHandle *network,
                      et::Span<et::EValue *> values) const override {
        Operand operands[kMostOperands];
        if (values.size() > kMostOperands) {
            ATONC_SAY("more than %d operands", static_cast<int>(kMostOperands));
            return et::Error::InvalidArgument;
        }
        for (size_t k = 0; k < values.size(); k++) {
            if (!Flat(values[k], &operands[k])) {
                ATONC_SAY("operand %d is no tensor with its axes in order", static_cast<int>(k));
                return et::Error::InvalidArgument;
            }
        }
        const bool done = port::Run(network, operands, values.size(), context.event_tracer());
        return done ? et::Error::Ok : et::Error::DelegateInvalidHandle;
    }

    void destroy(et::DelegateHandle *network) const override { port::Remove(network); }
};

AtonBackend backend;
[[maybe_unused]] const et::Error registered = et::register_backend({"AtonBackend", &backend});

} // namespace
} // namespace atonc
