package picture

import (
	"bytes"
	"encoding/binary"
)

// What the decoders of image/png, image/jpeg and golang.org/x/image/webp allocate, in bytes, by the headers of
// a file; each is an upper bound, tried against the decoders in the tests.

// pngMemory returns the memory of a PNG: its pixels, twice if it is interlaced.
func pngMemory(file []byte, pixels int) int {
	const depth, colour, interlace, header = 24, 25, 28, 29
	if len(file) < header {
		return 0 // its configuration was read: it has them
	}
	each := 4
	switch {
	case file[depth] == 16:
		each = 8
	case file[colour] == 3: // with a palette
		each = 1
	}
	if file[interlace] != 0 {
		each *= 2
	}
	return each * pixels
}

// webpMemory returns the memory of a WebP: one without loss, and the transparency of one with loss, has
// prefix codes that take far more memory than bytes of the file.
func webpMemory(file []byte, pixels int) int {
	if !bytes.Contains(file, []byte("VP8L")) && !bytes.Contains(file, []byte("ALPH")) {
		return 2*pixels + len(file)
	}
	const (
		group    = 5 * 560 // bytes of five prefix codes with their tables
		leastBit = 20      // bits of the file that five take at least
	)
	return 10*pixels + len(file) + group*min(8*len(file)/leastBit, pixels/16+1, 1<<16)
}

// jpegFile is what the segments of a JPEG say.
type jpegFile struct {
	frames      int // the decoder takes one
	scans       int
	memory      int
	orientation int // by its Exif, 1 to 8: cameras do not turn the pixels
}

// readJPEG reads the segments of a JPEG as image/jpeg does, up to its first scan, and counts the scans.
func readJPEG(file []byte) jpegFile {
	// Those of a thumbnail in the metadata count, too. Within a scan the byte 0xff is followed by 0.
	j := jpegFile{orientation: 1, scans: bytes.Count(file, []byte{0xff, 0xda})}
	rest := file[min(2, len(file)):]
	for {
		at := bytes.IndexByte(rest, 0xff)
		if at < 0 {
			return j
		}
		for rest = rest[at:]; len(rest) > 0 && rest[0] == 0xff; {
			rest = rest[1:] // any number of them may stand before a marker
		}
		if len(rest) == 0 {
			return j
		}
		marker := rest[0]
		rest = rest[1:]
		if marker == 0 || marker >= 0xd0 && marker <= 0xd9 { // without a length
			continue
		}
		if len(rest) < 2 {
			return j
		}
		n := int(binary.BigEndian.Uint16(rest))
		if n < 2 || n > len(rest) {
			return j
		}
		segment := rest[2:n]
		rest = rest[n:]
		switch marker {
		case 0xc0, 0xc1, 0xc2:
			j.frames++
			j.memory = jpegMemory(segment, marker == 0xc2, bytes.Contains(file, []byte("Adobe")))
		case 0xda:
			return j
		case 0xe1:
			if tiff, found := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); found {
				j.orientation = orientation(tiff)
			}
		}
	}
}

// jpegMemory returns the memory of a frame: its samples, with their coefficients if it is progressive, and
// another picture of four bytes a pixel where the colours are not those of a camera: four components, red,
// green and blue by name or, as converted says, by a marker of Adobe.
func jpegMemory(frame []byte, progressive, converted bool) int {
	if len(frame) < 6 || len(frame) < 6+3*int(frame[5]) {
		return 0 // the decoder refuses it
	}
	height, width := int(binary.BigEndian.Uint16(frame[1:])), int(binary.BigEndian.Uint16(frame[3:]))
	wide, high, blocks := 1, 1, 0
	components := frame[6 : 6+3*int(frame[5])]
	for c := components; len(c) >= 3; c = c[3:] {
		h, v := int(c[1]>>4), int(c[1]&15)
		wide, high, blocks = max(wide, h), max(high, v), blocks+h*v
	}
	across, down := (width+8*wide-1)/(8*wide), (height+8*high-1)/(8*high)
	const samples, coefficient = 64, 4
	cost := across * down * blocks * samples
	if progressive {
		cost *= 1 + coefficient
	}
	if converted || len(components) == 12 || len(components) > 0 && components[0] == 'R' {
		cost += 4 * width * height
	}
	return cost
}

// orientation returns the orientation in the Exif of a picture, or 1.
func orientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.BigEndian
	if tiff[0] == 'I' {
		order = binary.LittleEndian
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 1
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			break
		}
		if value := int(order.Uint16(entries[8:])); order.Uint16(entries) == 0x0112 && value >= 1 && value <= 8 {
			return value
		}
		entries = entries[12:]
	}
	return 1
}
