// comm/testing/store_process.h: a store in a process of its own, so that any rank may be killed.
//
// Threads: as ProcessWorld.
#pragma once
#include <unistd.h>

#include <memory>
#include <string>

#include "tandem/comm/store/run_store.h"
#include "tandem/shm/testing/process_world.h"

namespace tandem::comm {

class StoreProcess {
 public:
  StoreProcess()
      : host_(1,
              [](int, const shm::Voice& voice) {
                const HostedStore hosted = host_store({});
                voice.say(concat(hosted.place.endpoint.port, ";"));
                for (;;) ::pause();
              }),
        port_(host_.hears(0, ";") ? std::stoi(host_.said(0)) : 0) {}

  [[nodiscard]] int port() const { return port_; }

 private:
  shm::ProcessWorld host_;
  const int port_;
};

}  // namespace tandem::comm
