// A table of a frame's colours, while these are few. It is open-addressed: a colour lies at its hash or at one of the places after it.

const PLACES = 1024u;
const MOST_COLOURS = 256u;
const TAKEN = 0x1000000u;               // marks a place that has a colour, black too

fn first_place(colour: u32) -> u32 {
    return (colour * 0x9e3779b1u) >> 22u;   // Fibonacci hashing: the top 10 bits
}
