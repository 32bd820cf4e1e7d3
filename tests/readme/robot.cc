#include <cstdio>

#include "pole.h"

// A loop of a controller: it reads what the sensors say, and pushes the cart to the left or to the right.
int main() {
  float position = 0.0F, speed = 0.0F, angle = 0.05F, turning = 0.0F;
  for (int step = 0; step < 200; ++step) {
    const tandem_pole::Observation seen = {{position, speed, angle, turning}};
    tandem_pole::Action action;
    if (!tandem_pole::act(seen, action)) {
      std::fprintf(stderr, "the sensors say what no sensor can say\n");
      return 1;
    }
    if (angle < -0.2F || angle > 0.2F) {
      std::printf("the pole fell after %d steps\n", step);
      return 0;
    }
    const float push = action.choice == 1 ? 1.0F : -1.0F;
    turning += 0.02F * (10.0F * angle - 15.0F * push);
    angle += 0.02F * turning;
    speed += 0.2F * push;
    position += 0.02F * speed;
  }
  std::printf("the pole stands at %.3f rad\n", static_cast<double>(angle));
  return 0;
}
