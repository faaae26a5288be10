package bus

import (
	"strconv"
	"strings"
)

// Tokens gives the estimated tokens of a request's prompt and of its output, 0 if the
// request does not say.
func Tokens(h Header) (prompt, output int64) {
	a, b, _ := strings.Cut(get(h, HeaderTokens), " ")
	return tokens(a), tokens(b)
}

// maxTokens bounds what is believed of one request.
const maxTokens = 1 << 40

func tokens(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return min(n, maxTokens)
}
