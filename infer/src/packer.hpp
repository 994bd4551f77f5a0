// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix, in a format and interleaved: four rows in blocks of so many columns.
#pragma once

#include "aligned.hpp"
#include "plan.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace denizen::infer {

class Packer {
public:
    // Writes from `to` on. `columns`: of a block.
    Packer(unsigned char* to, Format format, const Op& op, size_t columns)
        : to_(to), format_(format), op_(op), columns_(columns)
    {
    }

    // A segment of four rows: element j of row r is row(r)[j * stride], or 0 where there is none.
    template <class Row>
    void segment(size_t columns, size_t stride, Row&& row)
    {
        for (size_t block = 0; block < columns; block += columns_) {
            for (size_t r = 0; r < rows_together; ++r) {
                const float* from = row(r);
                for (size_t lane = 0; lane < columns_; ++lane) {
                    const size_t j = block + lane;
                    put(from != nullptr && j < columns ? from[j * stride] : 0.0F);
                }
            }
        }
    }

private:
    void put(float value); // throws bad_argument beyond the format's range

    unsigned char* to_;
    Format format_;
    const Op& op_;
    size_t columns_;
};

// The four rows from `unit` on, of which those before `end` are there (lstm, gru: the rows of that
// unit): what the input is multiplied by, and what h is.
void pack_input_rows(Packer& packer, const Step& step, const Op& op, size_t unit, size_t end);
void pack_state_rows(Packer& packer, const Step& step, const Op& op, size_t unit, size_t end);

// Vectors of an op (see Weights), each padded.
Aligned<float> vectors_of(const Step& step, const Op& op);

} // namespace denizen::infer
