// The producers of a sink under test: how many there were, the one that runs, and the end of the last.
#pragma once

#include <list>
#include <memory>
#include <thread>
#include <utility>

#include "sink/kafka/producer.h"
#include "sink/kafka/signals_blocked.h"

namespace outbox::sink::kafka {

// Outlives the sink that is made with life().
class ProducerWatch {
 public:
  ~ProducerWatch() { Join(); }

  ProducerLife life() {
    return {[this](const Settings& settings, int event_fd, bool gapless, std::unique_ptr<Producer>* producer) {
              Status status = Producer::Make(settings, event_fd, gapless, producer);
              if (status.ok() && gapless) {
                ++made_;
                handle_ = (*producer)->handle();
              }
              return status;
            },
            [this](std::unique_ptr<Producer> producer, std::shared_ptr<void> after) {
              if (producer->handle() == handle_) {
                handle_ = nullptr;
              }
              SignalsBlocked blocked;
              threads_.emplace_back([producer = std::move(producer), after = std::move(after)]() mutable {
                producer.reset();
                after.reset();
              });
            }};
  }

  uint64_t made() const { return made_; }         // main ones
  rd_kafka_t* handle() const { return handle_; }  // of the main one; nullptr between two
  // Until all that were let go of are destroyed.
  void Join() {
    for (std::thread& thread : threads_) {
      thread.join();
    }
    threads_.clear();
  }

 private:
  uint64_t made_ = 0;
  rd_kafka_t* handle_ = nullptr;
  std::list<std::thread> threads_;
};

}  // namespace outbox::sink::kafka
