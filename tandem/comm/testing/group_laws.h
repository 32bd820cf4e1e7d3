// comm/testing/group_laws.h: what every group must do, asked by one of its members; each law returns the faults it saw.
//
// Threads: all members call the same law at the same time.
#pragma once
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <initializer_list>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tandem/base/text.h"
#include "tandem/comm/local_group.h"
#include "tandem/comm/store/store.h"
#include "tandem/concurrency/poll_until.h"
#include "tandem/concurrency/testing/within.h"

namespace tandem::comm {

inline Limits within_a_minute() { return within(std::chrono::minutes(1)); }

/// Values that tell rank and place, and whose sum depends on the association.
inline torch::Tensor stamped(int rank, std::int64_t count, torch::ScalarType dtype) {
  return torch::arange(count, torch::kDouble).mul(0.1).add(1.0 / (rank + 3)).mul(std::pow(10.0, rank % 4)).to(dtype);
}

inline torch::Tensor sum_of_local_group(int size, std::int64_t count, torch::ScalarType dtype) {
  const auto members = make_local_group(size);
  std::vector<torch::Tensor> flats;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < size; ++rank) flats.push_back(stamped(rank, count, dtype));
  for (const auto& member : members) {
    threads.emplace_back([&flats, member = member.get()] {
      member->start_all_reduce(flats[static_cast<std::size_t>(member->rank())]).wait(within_a_minute());
    });
  }
  threads.clear();
  return flats.front();
}

/// Sums have the bits of a local group of the same size, in memory of the group and in other memory, two at a time.
inline std::string faults_of_sums(Group& group, std::initializer_list<torch::ScalarType> dtypes,
                                  std::initializer_list<std::int64_t> counts) {
  std::string faults;
  for (const torch::ScalarType dtype : dtypes) {
    for (const std::int64_t count : counts) {
      const torch::Tensor expected = sum_of_local_group(group.size(), count, dtype);
      const torch::Tensor shared = group.allocate(count, dtype, torch::kCPU);
      shared.copy_(stamped(group.rank(), count, dtype));
      const torch::Tensor own = stamped(group.rank(), count, dtype);
      Pending first = group.start_all_reduce(shared);
      Pending second = group.start_all_reduce(own);
      first.wait(within_a_minute());
      second.wait(within_a_minute());
      if (torch::equal(shared, expected) && torch::equal(own, expected)) continue;
      faults += concat(count, " x ", c10::toString(dtype), " differ; ");
    }
  }
  return faults;
}

/// Gathers keep the order of ranks, whatever each of them gives; a broadcast brings the root's.
inline std::string faults_of_copies(Group& group) {
  std::string faults;
  const auto rows = [](int rank) { return torch::full({1000 * rank, 3}, rank, torch::kLong); };
  const std::vector<torch::Tensor> all = group.all_gather(rows(group.rank()), within_a_minute());
  std::vector<double> numbers(static_cast<std::size_t>(group.size()));
  const double mine = group.rank();
  group.all_gather(std::span(&mine, 1), numbers, within_a_minute());
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (!torch::equal(all[index], rows(rank))) faults += "another tensor; ";
    if (numbers[index] != rank) faults += "another number; ";
  }
  for (int root = 0; root < group.size(); ++root) {
    for (const std::int64_t count : {0, 3, 30'000}) {
      const torch::Tensor value = torch::full({count}, group.rank(), torch::kInt);
      group.broadcast(value, root, within_a_minute());
      if (!torch::equal(value, torch::full({count}, root, torch::kInt))) faults += "another value; ";
    }
  }
  return faults;
}

/// Every part of a tensor comes from its owner, whether members own one part, several or none; the rest stays.
inline std::string faults_of_shared_parts(Group& group) {
  const auto value = [](int rank, std::int64_t at) { return 1000.0 * rank + static_cast<double>(at % 977); };
  std::string faults;
  for (const std::int64_t count : {0, 1, 40, 3001, 400'003}) {
    // Equal parts; parts in turns with gaps, from the last member to the first; everything at the last member.
    std::vector<OwnedPart> equal, turns, last{{group.size() - 1, 0, count}};
    for (int rank = 0; rank < group.size(); ++rank)
      equal.push_back({rank, count * rank / group.size(), count * (rank + 1) / group.size()});
    for (std::int64_t piece = 0; piece < 9; ++piece) {
      turns.push_back({group.size() - 1 - static_cast<int>(piece) % group.size(), count * piece / 10,
                       count * piece / 10 + count / 11});
    }
    for (const std::vector<OwnedPart>& parts : {equal, turns, last}) {
      for (const torch::ScalarType dtype : {torch::kFloat, torch::kDouble, torch::kLong}) {
        const torch::Tensor flat = torch::empty({count}, torch::kDouble), expected = torch::empty_like(flat);
        for (std::int64_t at = 0; at < count; ++at)
          flat.data_ptr<double>()[at] = expected.data_ptr<double>()[at] = value(group.rank(), at);
        for (const OwnedPart& part : parts) {
          for (std::int64_t at = part.begin; at < part.end; ++at)
            expected.data_ptr<double>()[at] = value(part.owner, at);
        }
        const torch::Tensor shared = flat.to(dtype);
        group.share_parts(shared, parts, within_a_minute());
        if (torch::equal(shared, expected.to(dtype))) continue;
        faults += concat(parts.size(), " parts of ", count, " x ", c10::toString(dtype), " differ; ");
      }
    }
  }
  return faults;
}

/// A part of a tensor is reduced and nothing else.
inline std::string faults_of_parts(Group& group) {
  const torch::Tensor flat = group.allocate(10'000, torch::kFloat, torch::kCPU);
  flat.fill_(1);
  group.start_all_reduce(flat.narrow(0, 1001, 7777)).wait(within_a_minute());
  torch::Tensor expected = torch::ones({10'000});
  expected.narrow(0, 1001, 7777).fill_(group.size());
  return torch::equal(flat, expected) ? "" : "more than the part, or less; ";
}

/// Who is missing at a deadline is asked, and who then comes is not named.
inline std::string faults_of_questions(Group& group) {
  const int last = group.size() - 1;
  Limits limits = within(std::chrono::milliseconds(10));
  limits.answer = std::chrono::minutes(1);
  if (last == 0 || group.rank() < last) {
    group.barrier(limits);
    return "";
  }
  std::stop_source asked;
  group.on_question([&] { asked.request_stop(); });
  pause(std::chrono::seconds(30), {.deadline = Deadline::infinite(), .stop = asked.get_token()});
  group.on_question({});
  group.barrier(within_a_minute());
  return asked.stop_requested() ? "" : "nobody asked; ";
}

/// expire() ends the wait that a member is in, and only that. Ends the group, by throwing what the wait of the first
/// member threw, or the end of the group.
inline void expire_first_member(Group& group) {
  group.expire();
  group.barrier(within_a_minute());
  if (group.rank() == group.size() - 1) {
    std::stop_source closed;
    const Listening closing = group.on_close([&](const std::string&) { closed.request_stop(); });
    pause(std::chrono::minutes(1), {.deadline = Deadline::infinite(), .stop = closed.get_token()});
  } else if (group.rank() == 0) {
    const std::jthread hurrier([&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        group.expire();
        pause(std::chrono::milliseconds(10), {.deadline = Deadline::infinite(), .stop = stop});
      }
    });
    return group.barrier({});
  }
  group.barrier({});
}

}  // namespace tandem::comm
