// Memory that is given back [-].
#pragma once

namespace outbox {

// Empties a container and gives back its memory. clear() keeps that, and so does `x = {}`: it assigns an empty list to
// what is there.
template <typename Container>
void Release(Container* container) {
  Container().swap(*container);
}

}  // namespace outbox
