module segments

go 1.19
