CORE_SOURCES += optimizer/costs.c optimizer/front.c optimizer/problem.c optimizer/wr.c
