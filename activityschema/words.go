package activityschema

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes of a text at once, as one little-endian word: the byte that comes
// first in the text is the lowest of the word. The sums and differences below
// can carry from one byte into the next, but only out of a byte that is itself
// found: the lowest one found is always right.

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// load64 returns the word at b[p].
func load64(b []byte, p int) uint64 { return binary.LittleEndian.Uint64(b[p:]) }

// load32 returns the half word at b[p].
func load32(b []byte, p int) uint32 { return binary.LittleEndian.Uint32(b[p:]) }

// leadingDigits returns how many digits word begins with, 0 to 8.
func leadingDigits(word uint64) int {
	value := word ^ '0'*everyByte // 0 to 9 for digits
	other := ((value + (0x80-10)*everyByte) | value) & highBits
	return bits.TrailingZeros64(other) / 8
}

// nonZeroDigit tells whether one of the first n digits of word is not 0.
func nonZeroDigit(word uint64, n int) bool {
	return (word^'0'*everyByte)&(1<<(8*n)-1) != 0 // shifting by 64 leaves all bits
}

// plainText returns how many bytes word begins with that stand for themselves
// in a JSON string and are ASCII, 0 to 8.
func plainText(word uint64) int {
	control := word - ' '*everyByte
	quotes := (word ^ '"'*everyByte) - everyByte
	escapes := (word ^ '\\'*everyByte) - everyByte
	return bits.TrailingZeros64((word|control|quotes|escapes)&highBits) / 8
}

// otherThanDigits returns word with the high bit of each byte that is no digit,
// and no other bit. Unlike the rest it is right for all bytes.
func otherThanDigits(word uint64) uint64 {
	value := word ^ '0'*everyByte
	return ((value&^highBits + (0x80-10)*everyByte) | value) & highBits
}
