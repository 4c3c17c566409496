package main

import (
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// bitOf returns the status of an index in a Status List Token (draft-ietf-oauth-status-list section 5.1).
func bitOf(token string, index int) (bool, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false, errors.New("not a JWT")
	}
	var c struct {
		List struct {
			Data string `json:"lst"`
		} `json:"status_list"`
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		return false, err
	}
	packed, err := base64.RawURLEncoding.DecodeString(c.List.Data)
	if err != nil {
		return false, err
	}
	z, err := zlib.NewReader(strings.NewReader(string(packed)))
	if err != nil {
		return false, err
	}
	list, err := io.ReadAll(z)
	if err != nil || index/8 >= len(list) {
		return false, errors.Join(err, errors.New("no such index"))
	}
	return list[index/8]>>(index%8)&1 == 1, nil
}
