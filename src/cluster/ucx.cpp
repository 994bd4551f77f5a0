// SPDX-License-Identifier: Apache-2.0
// A pipe over UCX's streams. The socket between the two sides, over which they have proved who they
// are, stays open beside it: it ends with the process that held it, however that ended, and UCX may
// not say so.
//
// Neither thread of a link calls UCX while the other does. What is sent is copied, and is UCX's
// until its request is done; nothing else is taken until then.
#include "pipe.hpp"
#include "ucx_api.hpp"
#include <denizen/cluster/ucx.hpp>

#include <denizen/base/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <sys/socket.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace denizen::cluster {
namespace {

constexpr size_t staged = 128u << 10; // bytes that are with UCX at a time
constexpr int closes_within = 200;    // turns of 1 ms until an endpoint is given up

class Library {
public:
    Library(const std::string& path, bool loopback)
    {
        void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle == nullptr) {
            const char* const why = dlerror();
            throw Error(Errc::no_device, "no UCX: " + std::string(why != nullptr ? why : "") +
                                             "; pip install libucx-cu13");
        }
        const auto entry = [&](auto& function, const char* symbol) {
            function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
                dlsym(handle, symbol));
            if (function == nullptr) {
                throw Error(Errc::no_device, path + " has no " + symbol +
                                                 "; UCX 1.12 or newer is needed: "
                                                 "pip install libucx-cu13");
            }
        };
        entry(api.version, "ucp_get_version");
        entry(api.config_read, "ucp_config_read");
        entry(api.config_modify, "ucp_config_modify");
        entry(api.config_release, "ucp_config_release");
        entry(api.init, "ucp_init_version");
        entry(api.worker_create, "ucp_worker_create");
        entry(api.worker_destroy, "ucp_worker_destroy");
        entry(api.worker_address, "ucp_worker_get_address");
        entry(api.release_address, "ucp_worker_release_address");
        entry(api.progress, "ucp_worker_progress");
        entry(api.event_fd, "ucp_worker_get_efd");
        entry(api.arm, "ucp_worker_arm");
        entry(api.endpoint_create, "ucp_ep_create");
        entry(api.endpoint_close, "ucp_ep_close_nbx");
        entry(api.send, "ucp_stream_send_nbx");
        entry(api.receive, "ucp_stream_recv_data_nb");
        entry(api.release, "ucp_stream_data_release");
        entry(api.check, "ucp_request_check_status");
        entry(api.free_request, "ucp_request_free");
        unsigned major = 0;
        unsigned minor = 0;
        unsigned release = 0;
        api.version(&major, &minor, &release);
        if (major != 1 || minor < 12) {
            throw Error(Errc::no_device, path + " is UCX " + std::to_string(major) + "." +
                                             std::to_string(minor) +
                                             "; 1.12 or newer is needed: pip install libucx-cu13");
        }
        ucx::Config* config = nullptr;
        check(api.config_read(nullptr, nullptr, &config), "its settings");
        if (loopback) { // what UCX listens on is reached from this machine alone
            const auto set = [&](const char* variable, const char* name, const char* value) {
                if (std::getenv(variable) == nullptr) {
                    check(api.config_modify(config, name, value), name);
                }
            };
            set("UCX_TLS", "TLS", "tcp");
            set("UCX_NET_DEVICES", "NET_DEVICES", "lo");
        }
        ucx::Params params{};
        params.fields = ucx::has_features;
        params.features = ucx::stream | ucx::wakeup;
        const ucx::Status status = api.init(1, 12, &params, config, &context);
        api.config_release(config);
        check(status, "its start");
    }

    void check(ucx::Status status, const char* what) const
    {
        if (status != ucx::ok) {
            throw Error(Errc::no_device, std::string("UCX refuses ") + what + " (status " +
                                             std::to_string(status) +
                                             "); UCX_LOG_LEVEL=info says more");
        }
    }

    ucx::Api api{};
    ucx::Context* context = nullptr; // of the process, until it ends
};

// One for each way of starting it; they stay until the process ends.
const Library& library(const std::string& path, bool loopback)
{
    static std::mutex lock;
    static std::map<std::pair<std::string, bool>, std::unique_ptr<Library>> loaded;
    const std::lock_guard guard(lock);
    auto& found = loaded[{path, loopback}];
    if (!found) {
        found = std::make_unique<Library>(path, loopback);
    }
    return *found;
}

class UcxWorker : public UcxEnd {
public:
    explicit UcxWorker(const Library& of) : library(of), api(of.api)
    {
        ucx::WorkerParams params{};
        params.fields = ucx::has_thread_mode;
        params.thread_mode = ucx::serialized;
        library.check(api.worker_create(of.context, &params, &worker), "a worker");
        ucx::Address* bytes = nullptr;
        size_t length = 0;
        ucx::Status status = api.event_fd(worker, &events);
        if (status == ucx::ok) {
            status = api.worker_address(worker, &bytes, &length);
        }
        if (status != ucx::ok) {
            api.worker_destroy(worker);
            library.check(status, "a worker's address");
        }
        address_.assign(reinterpret_cast<const char*>(bytes), length);
        api.release_address(worker, bytes);
    }
    ~UcxWorker() override { api.worker_destroy(worker); }
    UcxWorker(const UcxWorker&) = delete;
    UcxWorker& operator=(const UcxWorker&) = delete;
    const std::string& address() const override { return address_; }
    // Before any link has it: no other thread uses this worker.
    void reach(const std::string& peer) const override
    {
        close(connect(peer, [](void*, ucx::Endpoint*, ucx::Status) {}, nullptr));
    }

    // An endpoint to the worker of that address. `on_error` is called in progress().
    ucx::Endpoint* connect(const std::string& peer,
                           void (*on_error)(void*, ucx::Endpoint*, ucx::Status), void* with) const
    {
        ucx::EndpointParams params{};
        params.fields = ucx::has_address | ucx::has_error_mode | ucx::has_error_handler;
        params.address = reinterpret_cast<const ucx::Address*>(peer.data());
        params.error_mode = ucx::peer_errors;
        params.on_error = on_error;
        params.with = with;
        ucx::Endpoint* endpoint = nullptr;
        library.check(api.endpoint_create(worker, &params, &endpoint), "the other side's address");
        return endpoint;
    }
    void close(ucx::Endpoint* endpoint) const
    {
        ucx::RequestParams params{};
        params.fields = ucx::has_flags;
        params.flags = ucx::close_by_force;
        finish(api.endpoint_close(endpoint, &params));
    }
    void finish(void* request) const
    {
        if (!ucx::is_request(request)) {
            return;
        }
        for (int i = 0; api.check(request) == ucx::in_progress && i < closes_within; ++i) {
            if (api.progress(worker) == 0) {
                poll(nullptr, 0, 1);
            }
        }
        api.free_request(request);
    }

    const Library& library;
    const ucx::Api& api;
    ucx::Worker* worker = nullptr;
    int events = -1;

private:
    std::string address_;
};

class UcxPipe : public Pipe {
public:
    UcxPipe(int socket, std::shared_ptr<UcxWorker> end, const std::string& peer)
        : socket_(socket), end_(std::move(end)), api_(end_->api), out_(staged)
    {
        endpoint_ = end_->connect(
            peer,
            [](void* with, ucx::Endpoint*, ucx::Status) {
                static_cast<UcxPipe*>(with)->ended_ = true; // in progress(), with the lock
            },
            this);
    }
    ~UcxPipe() override
    {
        const std::lock_guard guard(lock_);
        if (left_ != nullptr) {
            api_.release(endpoint_, data_);
        }
        end_->close(endpoint_);
        end_->finish(sending_);
    }
    UcxPipe(const UcxPipe&) = delete;
    UcxPipe& operator=(const UcxPipe&) = delete;

    ssize_t send(const iovec* parts, int count) override
    {
        const std::lock_guard guard(lock_);
        api_.progress(end_->worker);
        if (ended_) {
            return -1;
        }
        if (sending_ != nullptr) {
            const ucx::Status status = api_.check(sending_);
            if (status == ucx::in_progress) {
                return 0;
            }
            api_.free_request(sending_);
            sending_ = nullptr;
            if (status != ucx::ok) {
                ended_ = true;
                return -1;
            }
        }
        size_t n = 0;
        for (int i = 0; i < count && n < staged; ++i) {
            const size_t part = std::min(parts[i].iov_len, staged - n);
            std::memcpy(out_.data() + n, parts[i].iov_base, part);
            n += part;
        }
        const ucx::RequestParams params{};
        void* const request = api_.send(endpoint_, out_.data(), n, &params);
        if (ucx::is_error(request)) {
            ended_ = true;
            return -1;
        }
        sending_ = request; // null: done
        return static_cast<ssize_t>(n);
    }

    ssize_t receive(void* to, size_t room) override
    {
        const std::lock_guard guard(lock_);
        if (left_ == nullptr) {
            api_.progress(end_->worker);
            void* const data = api_.receive(endpoint_, &length_);
            if (ucx::is_error(data)) {
                ended_ = true;
            } else if (data != nullptr) {
                data_ = data;
                left_ = static_cast<const unsigned char*>(data);
            }
        }
        if (left_ == nullptr) {
            return ended_ || gone() ? -1 : 0;
        }
        const size_t n = std::min(room, length_);
        std::memcpy(to, left_, n);
        left_ += n;
        length_ -= n;
        if (length_ == 0) {
            api_.release(endpoint_, data_);
            left_ = nullptr;
        }
        return static_cast<ssize_t>(n);
    }

    void wait(int ms) override
    {
        {
            const std::lock_guard guard(lock_);
            if (left_ != nullptr || ended_ || api_.arm(end_->worker) != ucx::ok) {
                return;
            }
        }
        pollfd two[] = {{end_->events, POLLIN, 0}, {socket_, POLLIN, 0}};
        poll(two, 2, ms);
    }

    void end() override
    {
        const std::lock_guard guard(lock_);
        shutdown(socket_, SHUT_RDWR);
        ended_ = true;
    }

private:
    // Nothing is sent over the socket any more: what can be read is its end.
    bool gone() const
    {
        char byte = 0;
        const ssize_t n = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    }

    int socket_; // the stream's
    std::shared_ptr<UcxWorker> end_;
    const ucx::Api& api_;
    std::mutex lock_;
    ucx::Endpoint* endpoint_ = nullptr;
    bool ended_ = false;
    std::vector<unsigned char> out_;
    void* sending_ = nullptr;
    void* data_ = nullptr; // UCX's, of which so much has not been read
    const unsigned char* left_ = nullptr;
    size_t length_ = 0;
};

} // namespace

std::unique_ptr<Pipe> make_ucx_pipe(int socket, std::shared_ptr<UcxEnd> end,
                                    const std::string& peer)
{
    return std::make_unique<UcxPipe>(socket, std::dynamic_pointer_cast<UcxWorker>(end), peer);
}

} // namespace denizen::cluster

namespace denizen {

std::shared_ptr<UcxEnd> UcxEnd::open(const std::string& library, bool loopback)
{
    return std::make_shared<cluster::UcxWorker>(cluster::library(library, loopback));
}

} // namespace denizen
