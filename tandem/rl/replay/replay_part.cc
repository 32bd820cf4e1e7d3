#include "tandem/rl/replay/replay_part.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tandem/base/check.h"
#include "tandem/base/error.h"
#include "tandem/base/philox.h"
#include "tandem/base/text.h"
#include "tandem/rl/env/state_bytes.h"
#include "tandem/rl/replay/drawn_rows.h"
#include "tandem/rl/replay/priorities.h"
#include "tandem/rl/replay/sample_writer.h"
#include "tandem/rl/replay/step_store.h"

namespace tandem::rl {
namespace {

constexpr std::uint32_t kReplayFormat = 1;
constexpr const char* kStateOfPart = "state";
constexpr const char* kNumbersOfState = "numbers";
constexpr const char* kSharesOfState = "priority";

// Steps that sample() may begin at: [first, end).
struct StepRange {
  std::int64_t first = 0, end = 0;
};

// The array of a piece, empty where there is none: pieces have no empty arrays, which not all files can hold.
std::span<const std::byte> array_of(const ReplayPiece& piece, const char* name) {
  const auto found = std::ranges::find(piece.arrays, name, &NamedBytes::name);
  return found == piece.arrays.end() ? std::span<const std::byte>{} : found->bytes;
}

}  // namespace

// Everything of a part: the steps, their priorities, the random stream, and counts.
struct ReplayPart::Parts {
  Parts(const Spec& group_spec, int envs, ReplayOptions given, std::uint64_t stream)
      : spec(group_spec),
        options(std::move(given)),
        store(spec, envs, options),
        writer(spec, options),
        seed(stream),
        random(seed) {
    for (const StoredLeaf& leaf : store.plan().leaves) leaves.push_back(leaf.shown);
    if (options.priorities) priorities.emplace(*options.priorities, store.plan().steps_held, envs);
  }

  // The newest n - 1 steps are left out, since their windows are not complete.
  [[nodiscard]] StepRange drawable() const {
    const std::int64_t end = std::max<std::int64_t>(store.now() - options.n_step + 1, 0);
    return {.first = std::min(store.oldest(), end), .end = end};
  }
  // Lets rows that sample() may draw into the priorities, and others out.
  void follow_steps() {
    if (!priorities) return;
    const auto [first, end] = drawable();
    while (priorities->first() < first) {
      if (priorities->rows() == 0) priorities->enter();  // given up before it could be drawn
      priorities->leave();
    }
    while (priorities->last() + 1 < end) priorities->enter();
  }
  void draw_rows(std::int64_t rows, double beta);
  [[nodiscard]] std::string layout() const;
  void put(StateWriter& state) const;
  [[nodiscard]] StateReader reader_of(const ReplayPiece& piece) const;
  void restore(const ReplayPiece& piece, const ReadReplayPiece& read);
  void clear();

  const Spec spec;
  const ReplayOptions options;
  StepStore store;
  SampleWriter writer;
  std::optional<Priorities> priorities;
  std::vector<Leaf> leaves;
  const std::uint64_t seed;
  Philox random;
  std::vector<DrawnRow> drawn;
  std::int64_t sampled = 0;
  double mean_age = 0;
};

void ReplayPart::Parts::draw_rows(std::int64_t rows, double beta) {
  const auto [first, end] = drawable();
  const std::int64_t envs = store.plan().envs;
  drawn.resize(static_cast<std::size_t>(rows));
  double age = 0;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    std::int64_t row = first * envs;
    if (priorities) {
      row = priorities->row_at((static_cast<double>(i) + random.uniform_double()) / static_cast<double>(rows));
    } else {
      row += static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>((end - first) * envs)));
    }
    drawn[i] = {.step = row / envs, .env = row % envs, .weight = priorities ? priorities->weight(row, beta) : 1};
    age += static_cast<double>((store.now() - 1 - drawn[i].step) * envs);
  }
  sampled += rows;
  mean_age = age / static_cast<double>(rows);
}

// What decides where rows lie and what they mean; a snapshot of another layout is no use.
std::string ReplayPart::Parts::layout() const {
  const StorePlan& plan = store.plan();
  const auto of_leaf = [](const StoredLeaf& leaf) {
    return concat(describe(leaf.shown), leaf.is_narrowed ? " narrowed" : "", " of ", leaf.frames, " frames, padding ",
                  static_cast<int>(leaf.padding));
  };
  return concat(joined(plan.leaves, of_leaf), "; ", describe(spec.action), "; masks of ", plan.mask_bytes, "; ",
                plan.steps_held, " steps, ", plan.ends_held,
                options.kept_ends == KeptEnds::kAll ? " ends" : " truncations", "; n_step ", options.n_step,
                priorities ? "; priorities" : "");
}

void ReplayPart::Parts::put(StateWriter& state) const {
  state.put_group(kReplayFormat, spec.id, static_cast<std::size_t>(store.plan().envs));
  state.put_text(layout());
  store.put(state);
  state.put(random.save());
  state.put(sampled);
  state.put(mean_age);
  state.put(priorities ? priorities->largest() : 1.0);
}

// The reader stands at the layout.
StateReader ReplayPart::Parts::reader_of(const ReplayPiece& piece) const {
  StateReader state(array_of(piece, kNumbersOfState), "the replay part");
  state.expect_group(kReplayFormat, spec.id, static_cast<std::size_t>(store.plan().envs));
  return state;
}

void ReplayPart::Parts::restore(const ReplayPiece& piece, const ReadReplayPiece& read) {
  StateReader state = reader_of(piece);
  state.expect_text(layout(), "what it holds");
  store.restore(state, read);
  random.load(state.get<std::array<std::byte, Philox::kStateBytes>>());
  sampled = state.get<std::int64_t>();
  mean_age = state.get<double>();
  const auto largest = state.get<double>();
  state.expect_end();
  if (sampled < 0 || !std::isfinite(mean_age) || mean_age < 0) state.fail("its counts are negative");
  if (!priorities) return;
  const std::span<const std::byte> bytes = array_of(piece, kSharesOfState);
  if (bytes.size() % sizeof(double) != 0) state.fail("its priorities end within a number");
  std::vector<double> shares(bytes.size() / sizeof(double));
  if (!shares.empty()) std::memcpy(shares.data(), bytes.data(), shares.size() * sizeof(double));
  const auto [first, end] = drawable();
  if (!priorities->restore(first, end - 1, largest, shares)) state.fail("its priorities cannot be right");
}

void ReplayPart::Parts::clear() {
  store.clear();
  if (priorities) priorities->clear();
  random = Philox(seed);
  sampled = 0;
  mean_age = 0;
}

ReplayPart::ReplayPart(const Spec& spec, int envs, ReplayOptions options, std::uint64_t seed)
    : parts_(std::make_unique<Parts>(spec, envs, std::move(options), seed)) {}
ReplayPart::~ReplayPart() = default;

void ReplayPart::begin(const EnvArrays& first) {
  parts_->store.begin(first);
  parts_->follow_steps();
}

void ReplayPart::append(const EnvActions& actions, const EnvArrays& step) {
  parts_->store.append(actions, step);
  parts_->follow_steps();
}

std::int64_t ReplayPart::drawable() const {
  const auto [first, end] = parts_->drawable();
  return (end - first) * parts_->store.plan().envs;
}

void ReplayPart::sample(std::int64_t rows, const SampleArrays& into, double beta, const ClippedScale& scale) {
  TANDEM_EXPECTS(rows > 0, "replay: a draw of ", rows, " rows");
  TANDEM_EXPECTS(beta >= 0 && beta <= 1, "replay: beta is ", beta, " and must be 0 to 1");
  TANDEM_EXPECTS(drawable() > 0, "replay: no row can be drawn after ", parts_->store.now(), " steps; n_step is ",
                 parts_->options.n_step);
  parts_->draw_rows(rows, beta);
  parts_->writer.write(parts_->store, parts_->drawn, parts_->random, scale, into);
}

void ReplayPart::update_priorities(std::span<const std::int64_t> rows, std::span<const double> priorities) {
  TANDEM_EXPECTS(rows.size() == priorities.size(), "replay: ", priorities.size(), " priorities for ", rows.size(),
                 " rows");
  const auto [first, end] = parts_->drawable();
  const std::int64_t envs = parts_->store.plan().envs;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    TANDEM_EXPECTS(rows[i] >= 0 && rows[i] < end * envs, "replay: row ", rows[i], " was never drawn; rows end at ",
                   end * envs);
    TANDEM_EXPECTS(priorities[i] >= 0 && priorities[i] <= kLargestPriority, "replay: the priority of row ", rows[i],
                   " is ", priorities[i], " and must be 0 to ", kLargestPriority);
  }
  if (!parts_->priorities) return;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= first * envs) parts_->priorities->update(rows[i], priorities[i]);
  }
}

ReplaySnapshot ReplayPart::snapshot() const {
  struct Own {
    std::vector<std::byte> numbers;
    std::vector<double> shares;
  };
  const auto own = std::make_shared<Own>();
  StateWriter state;
  parts_->put(state);
  own->numbers = state.take();
  if (parts_->priorities) own->shares = parts_->priorities->shares();
  ReplaySnapshot snapshot;
  ReplayPiece& piece = snapshot.pieces.emplace_back();
  piece.name = kStateOfPart;
  piece.arrays.push_back({kNumbersOfState, own->numbers});
  if (!own->shares.empty())
    piece.arrays.push_back({kSharesOfState, std::as_bytes(std::span(std::as_const(own->shares)))});
  piece.memory = own;
  parts_->store.append_pieces(snapshot.pieces);
  return snapshot;
}

void ReplayPart::restore(const ReadReplayPiece& read) {
  try {
    const ReplayPiece state = read(kStateOfPart);
    parts_->restore(state, read);
  } catch (...) {
    parts_->clear();
    throw;
  }
}

bool ReplayPart::fits(const ReadReplayPiece& read) const {
  const ReplayPiece piece = read(kStateOfPart);
  StateReader state = parts_->reader_of(piece);
  return state.get_text() == parts_->layout();
}

ReplayStats ReplayPart::stats() const {
  const StepStore& store = parts_->store;
  const std::int64_t envs = store.plan().envs;
  ReplayStats stats{.rows = (store.now() - store.oldest()) * envs,
                    .capacity = store.plan().steps_held * envs,
                    .inserted = store.now() * envs,
                    .sampled = parts_->sampled,
                    .mean_age = parts_->mean_age,
                    .bytes = store.bytes()};
  if (stats.inserted > 0)
    stats.samples_per_insert = static_cast<double>(stats.sampled) / static_cast<double>(stats.inserted);
  if (parts_->priorities) {
    stats.priority_mean = parts_->priorities->mean_share();
    stats.priority_max = parts_->priorities->largest();
    stats.bytes += parts_->priorities->bytes();
  }
  return stats;
}

const ReplayOptions& ReplayPart::options() const { return parts_->options; }
const std::vector<Leaf>& ReplayPart::leaves() const { return parts_->leaves; }
int ReplayPart::envs() const { return static_cast<int>(parts_->store.plan().envs); }

}  // namespace tandem::rl
