"""Dense attention backward: masks, bias, dropout, grouped heads, packed sequences."""
